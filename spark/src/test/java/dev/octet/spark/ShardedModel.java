package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.safetensors.ShardIndex;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.stream.Stream;

/** A small Llama whose tensors are dealt out to many files, so that weights which share a scale lie in different ones. */
final class ShardedModel {
    static final int SHARDS = 6;

    private ShardedModel() {}

    static Path make(Path folder) throws IOException {
        Files.createDirectories(folder);
        Path source = Path.of(System.getProperty("octet.testdata"), "checkpoints", "llama-128");
        Map<String, String> index = new LinkedHashMap<>();
        try (Checkpoint checkpoint = Checkpoint.open(source);
                Arena arena = Arena.ofConfined()) {
            List<Map<String, Tensor>> shards = new ArrayList<>();
            for (int i = 0; i < SHARDS; i++) {
                shards.add(new LinkedHashMap<>());
            }
            int next = 0;
            for (StoredTensor tensor : checkpoint.tensors().values()) {
                int shard = next++ % SHARDS;
                shards.get(shard).put(tensor.spec().name(), new Tensor(tensor.spec(), checkpoint.read(tensor, arena)));
                index.put(tensor.spec().name(), name(shard));
            }
            for (int i = 0; i < SHARDS; i++) {
                SafetensorsWriter.write(folder.resolve(name(i)), shards.get(i), Map.of("format", "pt"));
            }
        }
        new ShardIndex(index, OptionalLong.empty()).write(folder.resolve(ShardIndex.FILE_NAME));
        Files.copy(source.resolve("config.json"), folder.resolve("config.json"));
        Files.writeString(folder.resolve("tokenizer_config.json"), "{}\n");
        return folder;
    }

    static String name(int shard) {
        return "model-%05d-of-%05d.safetensors".formatted(shard + 1, SHARDS);
    }

    /** The recipe of this name for checkpoints. */
    static Recipe recipe(String name) {
        return Objects.requireNonNull(Recipes.byName(Recipes.CHECKPOINT).get(name), name);
    }

    /** All files of a folder by name. */
    static Map<String, byte[]> files(Path folder) throws IOException {
        Map<String, byte[]> found = new TreeMap<>();
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path file : all.filter(Files::isRegularFile).toList()) {
                found.put(folder.relativize(file).toString(), Files.readAllBytes(file));
            }
        }
        return found;
    }

    /** Both folders have the same files with the same bytes. */
    static void assertSame(Path expected, Path actual) throws IOException {
        Map<String, byte[]> one = files(expected);
        Map<String, byte[]> other = files(actual);
        assertEquals(one.keySet(), other.keySet());
        assertTrue(one.containsKey(ShardIndex.FILE_NAME), "the index is among them");
        one.forEach((name, bytes) -> org.junit.jupiter.api.Assertions.assertArrayEquals(bytes, other.get(name), name));
    }
}
