package dev.octet.formats.safetensors;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Sharded folders: written, read, and one planted fault for each rule of the index. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SafetensorsFolderTest {
    @TempDir
    Path folder;

    private final Arena arena = Arena.ofConfined();
    private final SafetensorsFormat format = new SafetensorsFormat();

    @AfterEach
    void close() {
        arena.close();
    }

    private Map<String, Tensor> tensors(String... names) {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (String name : names) {
            tensors.put(name, Tensor.ofFloats(arena, name, Shape.of(2), name.hashCode(), -1f));
        }
        return tensors;
    }

    private Model read() throws IOException {
        return format.read(folder, arena);
    }

    private List<String> files() throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(f -> f.getFileName().toString()).sorted().toList();
        }
    }

    private void index(String weightMap) throws IOException {
        Files.writeString(
                folder.resolve(ShardIndex.FILE_NAME), "{\"weight_map\":{" + weightMap.replace('\'', '"') + "}}");
    }

    private void refused(SafetensorsRule rule) {
        MalformedModelException e = assertThrows(MalformedModelException.class, this::read);
        assertEquals(rule.id(), e.rule().orElseThrow(), e.getMessage());
    }

    @Test
    void shards_are_filled_in_order_and_read_back() throws IOException {
        Map<String, Tensor> tensors = tensors("d", "c", "b", "a", "e"); // 8 bytes each
        SafetensorsWriter.writeFolder(folder, tensors, Map.of("format", "pt"), 17);
        assertEquals(
                List.of(
                        "model-00001-of-00003.safetensors",
                        "model-00002-of-00003.safetensors",
                        "model-00003-of-00003.safetensors",
                        "model.safetensors.index.json"),
                files());
        Model model = read();
        assertEquals(
                List.of("c", "d", "a", "b", "e"), List.copyOf(model.tensors().keySet()));
        assertEquals(Map.of("format", "pt"), model.metadata());
        tensors.forEach((name, tensor) ->
                assertArrayEquals(tensor.toFloats(), model.tensor(name).toFloats()));
        assertEquals(
                model.tensors().keySet(),
                format.read(folder.resolve(ShardIndex.FILE_NAME), arena)
                        .tensors()
                        .keySet());
        assertTrue(format.recognises(folder));
        assertTrue(format.recognises(folder.resolve(ShardIndex.FILE_NAME)));
        assertTrue(format.recognises(folder.resolve("model-00001-of-00003.safetensors")));
    }

    @Test
    void the_index_is_written_as_hugging_face_writes_it() throws IOException {
        SafetensorsWriter.writeFolder(folder, tensors("b", "a"), Map.of(), 8);
        // json.dumps(index, indent=2, sort_keys=True) + "\n"
        assertEquals("""
            {
              "metadata": {
                "total_size": 16
              },
              "weight_map": {
                "a": "model-00002-of-00002.safetensors",
                "b": "model-00001-of-00002.safetensors"
              }
            }
            """, Files.readString(folder.resolve(ShardIndex.FILE_NAME)));
        ShardIndex index = ShardIndex.read(folder.resolve(ShardIndex.FILE_NAME));
        assertEquals(OptionalLong.of(16), index.totalSize());
        assertEquals(Set.of("a", "b"), index.weightMap().keySet());
    }

    @Test
    void what_fits_in_one_shard_becomes_one_file_and_earlier_shards_go() throws IOException {
        SafetensorsWriter.writeFolder(folder, tensors("a", "b", "c"), Map.of(), 8);
        Files.writeString(folder.resolve("config.json"), "{}");
        Files.writeString(folder.resolve("adapter.safetensors"), "not ours");
        SafetensorsWriter.writeFolder(folder, tensors("a", "b"), Map.of(), 16);
        assertEquals(List.of("adapter.safetensors", "config.json", "model.safetensors"), files());
        SafetensorsWriter.writeFolder(folder, tensors("a", "b"), Map.of(), 15);
        assertFalse(files().contains("model.safetensors"));
        assertEquals(2, read().tensors().size());
    }

    @Test
    void a_tensor_larger_than_a_shard_gets_its_own() throws IOException {
        SafetensorsWriter.writeFolder(folder, tensors("a", "b"), Map.of(), 1);
        assertEquals(3, files().size());
        assertEquals(2, read().tensors().size());
    }

    @Test
    void a_folder_that_fails_half_way_keeps_what_it_held() throws IOException {
        SafetensorsWriter.writeFolder(folder, tensors("a", "b"), Map.of(), 8);
        List<String> before = files();
        Map<String, Tensor> tensors = tensors("x", "y");
        assertThrows(
                IOException.class,
                () -> SafetensorsWriter.writeFolder(
                        folder, tensors.values().stream().map(Tensor::spec).toList(), Map.of(), 8, (spec, sink) -> {
                            if (spec.name().equals("y")) {
                                throw new IOException("no space left");
                            }
                            SafetensorsWriter.Content.of(tensors).write(spec, sink);
                        }));
        assertEquals(before, files());
        assertEquals(Set.of("a", "b"), read().tensors().keySet());
    }

    @Test
    void a_missing_shard_is_named() throws IOException {
        SafetensorsWriter.writeFolder(folder, tensors("a", "b"), Map.of(), 8);
        Files.delete(folder.resolve("model-00002-of-00002.safetensors"));
        refused(SafetensorsRule.MISSING_SHARD);
    }

    @Test
    void a_tensor_of_the_index_that_its_shard_lacks_is_named() throws IOException {
        SafetensorsWriter.write(folder.resolve("s1"), tensors("a"), Map.of());
        SafetensorsWriter.write(folder.resolve("s2"), tensors("b"), Map.of());
        index("'a':'s1','b':'s2','c':'s2'");
        refused(SafetensorsRule.MISSING_TENSOR);
        index("'a':'s2','b':'s1'");
        refused(SafetensorsRule.MISSING_TENSOR);
        index("'a':'s1','b':'s2'");
        assertEquals(2, read().tensors().size());
    }

    @Test
    void a_tensor_that_the_index_does_not_know_is_named() throws IOException {
        SafetensorsWriter.write(folder.resolve("s1"), tensors("a", "stale"), Map.of());
        index("'a':'s1'");
        refused(SafetensorsRule.STALE_TENSOR);
    }

    @Test
    void a_tensor_in_two_shards_is_named() throws IOException {
        SafetensorsWriter.write(folder.resolve("s1"), tensors("a", "b"), Map.of());
        SafetensorsWriter.write(folder.resolve("s2"), tensors("b"), Map.of());
        index("'a':'s1','b':'s2'");
        refused(SafetensorsRule.TENSOR_IN_TWO_SHARDS);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "../s1",
                "/etc/passwd",
                "..",
                ".",
                "",
                " ",
                "sub/../s1",
                "sub/./s1",
                "sub//s1",
                "sub/../../s1",
                "sub\\\\s1",
                "C:s1",
                "..\\\\s1",
                "s\\u0000",
                "s1/"
            })
    void a_shard_name_that_leads_out_of_the_folder_is_refused(String name) throws IOException {
        index("'a':'" + name + "'");
        refused(SafetensorsRule.SHARD_OUTSIDE);
    }

    @Test
    void an_index_that_names_model_safetensors_counts() throws IOException {
        SafetensorsWriter.write(folder.resolve("model.safetensors"), tensors("a"), Map.of());
        SafetensorsWriter.write(folder.resolve("s2"), tensors("b"), Map.of());
        index("'a':'model.safetensors','b':'s2'");
        assertEquals(Set.of("a", "b"), read().tensors().keySet());
        index("'b':'s2'");
        refused(SafetensorsRule.AMBIGUOUS_FOLDER);
    }

    @Test
    void a_shard_may_lie_in_a_folder_below_the_index() throws IOException {
        Files.createDirectories(folder.resolve("sub/deeper"));
        SafetensorsWriter.write(folder.resolve("sub/deeper/s1"), tensors("a"), Map.of());
        SafetensorsWriter.write(folder.resolve("s2"), tensors("b"), Map.of());
        index("'a':'sub/deeper/s1','b':'s2'");
        assertEquals(Set.of("a", "b"), read().tensors().keySet());
    }

    @Test
    void a_folder_below_the_index_that_is_a_link_out_of_it_is_refused() throws IOException {
        Path inside = Files.createDirectory(folder.resolve("model"));
        Path outside = Files.createDirectory(folder.resolve("other"));
        SafetensorsWriter.write(outside.resolve("s1"), tensors("a"), Map.of());
        Files.createSymbolicLink(inside.resolve("sub"), outside);
        Files.writeString(inside.resolve(ShardIndex.FILE_NAME), "{\"weight_map\":{\"a\":\"sub/s1\"}}");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> format.read(inside, arena));
        assertEquals(SafetensorsRule.SHARD_OUTSIDE.id(), e.rule().orElseThrow());
    }

    @Test
    void an_index_of_no_tensors_is_refused() throws IOException {
        SafetensorsWriter.write(folder.resolve("s1"), tensors("a"), Map.of());
        index("");
        refused(SafetensorsRule.INVALID_INDEX);
    }

    @Test
    void a_link_out_of_the_folder_is_refused() throws IOException {
        Path inside = Files.createDirectory(folder.resolve("model"));
        SafetensorsWriter.write(folder.resolve("s1"), tensors("a"), Map.of());
        Files.createSymbolicLink(inside.resolve("s1"), folder.resolve("s1"));
        Files.writeString(inside.resolve(ShardIndex.FILE_NAME), "{\"weight_map\":{\"a\":\"s1\"}}");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> format.read(inside, arena));
        assertEquals("ShardOutside", e.rule().orElseThrow());
    }

    @Test
    void a_download_cache_whose_index_and_shards_are_links_to_one_folder_is_read() throws IOException {
        Path blobs = Files.createDirectory(folder.resolve("blobs"));
        Path snapshot = Files.createDirectory(folder.resolve("snapshot"));
        SafetensorsWriter.write(blobs.resolve("0123"), tensors("a"), Map.of());
        Files.writeString(blobs.resolve("4567"), "{\"metadata\":{},\"weight_map\":{\"a\":\"s1\"}}");
        Files.createSymbolicLink(snapshot.resolve("s1"), Path.of("../blobs/0123"));
        Files.createSymbolicLink(snapshot.resolve(ShardIndex.FILE_NAME), Path.of("../blobs/4567"));
        assertEquals(1, format.read(snapshot, arena).tensors().size());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{\"weight_map\":[]}",
                "{\"weight_map\":{\"a\":1}}",
                "{\"weight_map\":{\"a\":\"s1\"}} x",
                "{\"weight_map\":{\"a\":\"s1\"},\"weight_map\":{}}",
                "{\"weight_map\":{\"a\":\"s1\"",
            })
    void an_index_of_another_form_is_refused(String json) throws IOException {
        Files.writeString(folder.resolve(ShardIndex.FILE_NAME), json);
        Path path = folder.resolve(ShardIndex.FILE_NAME);
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> ShardIndex.read(path));
        assertEquals("InvalidIndex", e.rule().orElseThrow());
    }

    @Test
    void an_index_nested_over_the_limit_is_refused() throws IOException {
        Path path = folder.resolve(ShardIndex.FILE_NAME);
        for (int depth : new int[] {HeaderLimits.MAX_NESTING - 1, HeaderLimits.MAX_NESTING}) {
            Files.writeString(
                    path,
                    "{\"x\":" + "[".repeat(depth - 1) + "]".repeat(depth - 1) + ",\"weight_map\":{\"a\":\"s1\"}}");
            assertEquals(Map.of("a", "s1"), ShardIndex.read(path).weightMap());
        }
        Files.writeString(path, "{\"x\":" + "[".repeat(HeaderLimits.MAX_NESTING));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> ShardIndex.read(path));
        assertEquals("LimitExceeded", e.rule().orElseThrow());
    }

    @Test
    void an_index_with_a_tensor_twice_is_refused() throws IOException {
        index("'a':'s1','a':'s2'");
        refused(SafetensorsRule.DUPLICATE_KEY);
    }

    @ParameterizedTest
    @ValueSource(strings = {"null", "\"x\"", "{\"total_size\":\"5\"}", "{\"total_size\":-1}", "{\"total_size\":1e99}"})
    void a_total_size_that_cannot_be_true_is_no_total_size(String metadata) throws IOException {
        Path path = folder.resolve(ShardIndex.FILE_NAME);
        Files.writeString(path, "{\"metadata\":" + metadata + ",\"weight_map\":{\"a\":\"s1\"}}");
        assertEquals(OptionalLong.empty(), ShardIndex.read(path).totalSize());
    }

    @Test
    void a_folder_with_two_models_is_refused_and_one_with_none_too() throws IOException {
        UnsupportedModelException none = assertThrows(UnsupportedModelException.class, this::read);
        assertTrue(none.what().contains("no safetensors model"));
        SafetensorsWriter.write(folder.resolve("x.safetensors"), tensors("a"), Map.of());
        assertEquals(1, read().tensors().size());
        SafetensorsWriter.write(folder.resolve("y.safetensors"), tensors("a"), Map.of());
        refused(SafetensorsRule.AMBIGUOUS_FOLDER);
        SafetensorsWriter.write(folder.resolve("model.safetensors"), tensors("b"), Map.of());
        assertEquals(Set.of("b"), read().tensors().keySet());
        index("'a':'x.safetensors'");
        refused(SafetensorsRule.AMBIGUOUS_FOLDER);
    }

    @Test
    void what_the_format_cannot_hold_is_refused_before_anything_is_written() throws IOException {
        Path path = folder.resolve("m.safetensors");
        for (Tensor tensor : List.of(
                Tensor.allocate(arena, new TensorSpec("t", DType.I4, Shape.of(2))),
                Tensor.allocate(arena, new TensorSpec("t", DType.C128, Shape.of(2))),
                Tensor.allocate(arena, new TensorSpec("t", DType.F4_E2M1, Shape.of(3))),
                Tensor.allocate(arena, new TensorSpec("__metadata__", DType.U8, Shape.of(3))),
                Tensor.allocate(arena, new TensorSpec("\ud800", DType.U8, Shape.of(3))))) {
            Model model = Model.of(Map.of(tensor.name(), tensor), Map.of());
            assertThrows(UnsupportedModelException.class, () -> format.write(model, path));
        }
        var spec = new TensorSpec("t", DType.U8, Shape.of(1));
        assertThrows(
                UnsupportedModelException.class,
                () -> SafetensorsWriter.write(path, List.of(spec, spec), Map.of(), (s, sink) -> {}));
        assertEquals(List.of(), files());
    }

    @Test
    void a_source_that_writes_too_few_or_too_many_bytes_is_a_bug_and_leaves_no_file() throws IOException {
        var spec = new TensorSpec("t", DType.U8, Shape.of(2));
        for (int bytes : new int[] {0, 1, 3}) {
            IllegalStateException e = assertThrows(
                    IllegalStateException.class,
                    () -> SafetensorsWriter.write(
                            folder.resolve("m"),
                            List.of(spec),
                            Map.of(),
                            (s, sink) -> sink.write(MemorySegment.ofArray(new byte[bytes]))));
            assertEquals("t U8 [2] takes 2 bytes, its source wrote " + bytes, e.getMessage());
        }
        assertEquals(List.of(), files());
    }
}
