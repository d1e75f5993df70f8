package dev.octet.converter.compare;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.compare.TensorDiff.Match;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.io.IOException;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PairingTest {
    private static Weight matrix(String name, int rows, int cols, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[rows * cols];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) random.nextGaussian();
        }
        return ArrayWeights.plain(name, DType.F32, Shape.of(rows, cols), x);
    }

    private static Pairing.Result pair(List<Weight> a, List<Weight> b) throws IOException {
        return Pairing.of(
                ArrayWeights.of(a.toArray(Weight[]::new)).weights(),
                ArrayWeights.of(b.toArray(Weight[]::new)).weights());
    }

    @ParameterizedTest
    @CsvSource({
        "model.layers.0.q.weight, layers.0.q.weight",
        "module.model.layers.0.q.weight, layers.0.q.weight",
        "_orig_mod.model.layers.0._orig_mod.q.weight, layers.0.q.weight",
        "model.weight, weight",
        "model, model"
    })
    void wrappers_are_taken_off_names(String name, String bare) {
        assertEquals(bare, Pairing.unwrapped(name));
    }

    @Test
    void names_that_differ_in_wrappers_belong_together() throws IOException {
        Pairing.Result result = pair(
                List.of(matrix("_orig_mod.model.layers.0.q.weight", 8, 4, 1)),
                List.of(matrix("layers.0.q.weight", 8, 4, 2)));
        assertEquals(Match.PREFIX, result.pairs().getFirst().match());
    }

    @Test
    void names_that_begin_further_out_belong_together_when_only_one_ends_so() throws IOException {
        Pairing.Result result = pair(
                List.of(matrix("m.bert.encoder.0.weight", 8, 4, 1), matrix("x.head.weight", 8, 4, 2)),
                List.of(matrix("encoder.0.weight", 8, 4, 3), matrix("y.head.weight", 8, 4, 4)));
        assertEquals(1, result.pairs().size());
        assertEquals("encoder.0.weight", result.pairs().getFirst().b().name());
        assertEquals(List.of("x.head.weight"), List.copyOf(result.onlyA()));
    }

    @Test
    void an_ending_of_two_names_tells_neither() throws IOException {
        Pairing.Result result = pair(
                List.of(matrix("encoder.weight", 8, 4, 1)),
                List.of(matrix("one.encoder.weight", 8, 4, 2), matrix("two.encoder.weight", 8, 4, 3)));
        assertEquals(0, result.pairs().size());
    }

    @Test
    void an_output_layer_that_one_side_does_not_store_is_its_embedding() throws IOException {
        Weight embedding = matrix("model.embed_tokens.weight", 50, 8, 1);
        Pairing.Result result = pair(List.of(embedding, matrix("lm_head.weight", 50, 8, 1)), List.of(embedding));
        assertEquals(2, result.pairs().size());
        assertEquals(Match.TIED, result.pairs().get(1).match());
        assertEquals(List.of(), List.copyOf(result.onlyA()));
    }

    @Test
    void matrices_without_names_are_found_by_their_elements_transposed_too() throws IOException {
        Weight a = matrix("layers.0.up.weight", 40, 24, 1);
        Weight decoy = matrix("onnx::MatMul_1", 24, 40, 2);
        Weight b = matrix("onnx::MatMul_2", 40, 24, 1).transposed();
        Pairing.Result result = pair(List.of(a), List.of(decoy, b));
        assertEquals(1, result.pairs().size());
        assertEquals("onnx::MatMul_2", result.pairs().getFirst().b().name());
        assertTrue(result.pairs().getFirst().transposed());
        assertEquals(Match.CONTENT, result.pairs().getFirst().match());
    }
}
