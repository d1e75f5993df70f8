package dev.octet.converter.sensitivity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.data.Batch;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LossSumsTest {
    private final Arena arena = Arena.ofAuto();

    private Tensor logits(float... values) {
        return Tensor.ofFloats(arena, "logits", Shape.of(1, 3, 2), values);
    }

    private Batch batch(long... mask) {
        Tensor ids = Tensor.ofLongs(arena, "input_ids", Shape.of(1, 3), 0, 1, 0);
        return new Batch(
                0, 1, Map.of("input_ids", ids, "attention_mask", Tensor.ofLongs(arena, "m", Shape.of(1, 3), mask)));
    }

    private static OutputLoss loss(Batch batch, Tensor reference, Tensor variant) {
        LossSums sums = new LossSums("logits", true, 1);
        sums.add(batch, Map.of("logits", reference), Map.of("logits", variant));
        return sums.result();
    }

    /** Two classes: p = sigmoid of the difference of their logits. */
    private static double divergence(double x, double y) {
        double p = 1 / (1 + Math.exp(-x));
        double q = 1 / (1 + Math.exp(-y));
        return p * Math.log(p / q) + (1 - p) * Math.log((1 - p) / (1 - q));
    }

    @Test
    void the_divergence_is_that_of_the_softmax_in_nats_per_token() {
        OutputLoss loss = loss(batch(1, 1, 1), logits(1, 0, 2, 0, -1, 0), logits(1.5f, 0, 2, 0, 3, 0));
        assertEquals((divergence(1, 1.5) + divergence(-1, 3)) / 3, loss.kl(), 1e-12);
    }

    @Test
    void a_constant_added_to_logits_loses_nothing_but_turns_the_vector() {
        OutputLoss loss = loss(batch(1, 1, 1), logits(1, 0, 2, 0, -1, 0), logits(101, 100, 102, 100, 99, 100));
        assertEquals(0, loss.kl(), 1e-12);
        assertEquals(0, loss.perplexityChange(), 1e-12);
        assertTrue(loss.cosine() > 0.1);
    }

    @Test
    void padding_is_left_out_of_all_of_them() {
        OutputLoss loss = loss(batch(1, 1, 0), logits(1, 0, 2, 0, -1, 0), logits(1, 0, 2, 0, 50, -9));
        assertEquals(0, loss.kl());
        assertEquals(0, loss.cosine(), 1e-15);
        assertEquals(0, loss.perplexityChange());
    }

    @Test
    void the_perplexity_is_of_next_tokens() {
        // tokens 0 1 0: position 0 predicts 1, position 1 predicts 0
        OutputLoss loss = loss(batch(1, 1, 1), logits(0, 0, 0, 0, 0, 0), logits(0, 1, 1, 0, 0, 0));
        double likelihood = 1 / (1 + Math.exp(-1));
        assertEquals(0.5 / likelihood - 1, loss.perplexityChange(), 1e-12);
    }

    @Test
    void a_model_without_logits_loses_by_the_cosine_of_its_worst_output() {
        LossSums sums = new LossSums(null, false, 1);
        Tensor x = Tensor.ofFloats(arena, "a", Shape.of(2, 2), 1, 0, 1, 0);
        Tensor turned = Tensor.ofFloats(arena, "a", Shape.of(2, 2), 1, 0, 0, 1);
        Batch two = new Batch(0, 2, Map.of());
        sums.add(two, Map.of("a", x, "b", x), Map.of("a", x, "b", turned));
        OutputLoss loss = sums.result();
        assertEquals(0.5, loss.cosine(), 1e-15);
        assertTrue(Double.isNaN(loss.kl()));
        assertEquals(Math.sqrt(0.5 / 2), loss.standardError(), 1e-12); // of the samples' losses 0 and 1
    }
}
