package dev.octet.converter.inspect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import dev.octet.formats.gguf.GgufFileType;
import dev.octet.formats.gguf.GgufKind;
import dev.octet.formats.gguf.GgufTensor;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.gguf.GgufValue;
import dev.octet.formats.gguf.GgufWriter;
import dev.octet.formats.tensor.Shape;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SequencedMap;
import java.util.stream.LongStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files that Octet did not write: other architectures, keys of other kinds. What the verb prints is tested in {@code cli}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GgufFactsTest {
    @TempDir
    Path folder;

    private final SequencedMap<String, GgufValue> keys = new LinkedHashMap<>();

    private GgufFacts facts(GgufTensor... tensors) throws IOException {
        Path file = folder.resolve("model.gguf");
        GgufWriter.write(
                file,
                keys,
                List.of(tensors),
                (t, sink) -> sink.write(MemorySegment.ofArray(new byte[(int) t.byteSize()])));
        return GgufFacts.of(file, null);
    }

    private static GgufValue wholes(long... numbers) {
        return new GgufValue.Sequence(
                GgufKind.I32,
                LongStream.of(numbers)
                        .<GgufValue>mapToObj(n -> new GgufValue.Whole(GgufKind.I32, n))
                        .toList());
    }

    @Test
    void of_a_size_that_each_layer_has_of_its_own_the_largest_is_shown() throws IOException {
        keys.put("general.architecture", GgufValue.of("openelm"));
        keys.put("openelm.block_count", GgufValue.of(3));
        keys.put("openelm.feed_forward_length", wholes(64, 96, 32));
        Dimensions d = Objects.requireNonNull(facts().dimensions());
        assertEquals(3, d.layers());
        assertEquals(96, d.intermediate());
    }

    @Test
    void keys_of_another_kind_are_not_taken_for_facts() throws IOException {
        keys.put("general.architecture", GgufValue.of(7));
        keys.put(GgufFileType.KEY, GgufValue.of("Q4"));
        keys.put("tokenizer.ggml.model", GgufValue.of(true));
        keys.put("rope.freq_base", new GgufValue.Real(GgufKind.F64, Double.NaN));
        keys.put("block_count", new GgufValue.Whole(GgufKind.I64, -3));
        GgufFacts facts = facts();
        assertNull(facts.architecture());
        assertNull(facts.fileType());
        assertNull(facts.tokenizer());
        assertNull(facts.rotary());
        assertNull(facts.dimensions());
        assertEquals("7", facts.metadata().get("general.architecture"));
    }

    @Test
    void a_mix_has_its_name_and_an_unknown_one_its_number() throws IOException {
        keys.put(GgufFileType.KEY, GgufValue.of(15));
        assertEquals("Q4_K_M", facts().fileType());
        keys.put(GgufFileType.KEY, GgufValue.of(1234));
        assertEquals("1234", facts().fileType());
    }

    @Test
    void upper_scales_and_factors_are_no_parameters() throws IOException {
        GgufFacts facts = facts(
                new GgufTensor("blk.0.attn_q.weight", Shape.of(2, 64), GgufType.NVFP4),
                new GgufTensor("blk.0.attn_q.scale", Shape.of(1), GgufType.F32),
                new GgufTensor("blk.0.attn_q.input_scale", Shape.of(1), GgufType.F32),
                new GgufTensor("rope_freqs.weight", Shape.of(8), GgufType.F32));
        assertEquals(128, facts.tensors().parameters());
        assertEquals(138, facts.tensors().elements());
        assertEquals(2 * 36 + 10 * 4, facts.tensors().bytes());
    }

    @Test
    void a_file_without_keys_and_tensors_is_shown() throws IOException {
        GgufFacts facts = facts();
        assertEquals(0, facts.tensors().count());
        assertEquals(Map.of(), facts.metadata());
    }
}
