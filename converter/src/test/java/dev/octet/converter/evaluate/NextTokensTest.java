package dev.octet.converter.evaluate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.data.Batch;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Which tokens count, and how much. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NextTokensTest {
    private static final int WORDS = 4;

    private final Arena arena = Arena.ofAuto();

    private Batch batch(int rows, long[] ids, long... mask) {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        Shape shape = Shape.of(rows, ids.length / rows);
        tensors.put("input_ids", Tensor.ofLongs(arena, "input_ids", shape, ids));
        if (mask.length > 0) {
            tensors.put(Batch.ATTENTION_MASK, Tensor.ofLongs(arena, Batch.ATTENTION_MASK, shape, mask));
        }
        return new Batch(0, rows, tensors);
    }

    /** Logits that give {@code weights[w]} parts of the probability to word {@code w} at every place. */
    private Tensor logits(int rows, int length, double... weights) {
        float[] values = new float[rows * length * WORDS];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) Math.log(weights[i % WORDS]);
        }
        return Tensor.ofFloats(arena, "logits", Shape.of(rows, length, WORDS), values);
    }

    private static Perplexity reference(NextTokens next) {
        return next.result("data").reference();
    }

    @Test
    void equal_chances_for_all_words_give_their_number() {
        NextTokens next = new NextTokens();
        Tensor even = logits(1, 3, 1, 1, 1, 1);
        next.add(batch(1, new long[] {0, 1, 2}), even, even);
        assertEquals(2, reference(next).tokens());
        assertEquals(WORDS, reference(next).perplexity(), 1e-6);
        assertEquals(0, next.result("data").change());
    }

    @Test
    void a_token_counts_by_what_stood_before_it() {
        NextTokens next = new NextTokens();
        Tensor a = logits(1, 2, 1, 2, 4, 1);
        next.add(batch(1, new long[] {0, 2}), a, logits(1, 2, 1, 1, 1, 1));
        assertEquals(2, reference(next).perplexity(), 1e-6); // four of eight parts
        assertEquals(1, next.result("data").change(), 1e-6);
    }

    @Test
    void padding_on_either_side_does_not_count() {
        NextTokens next = new NextTokens();
        Tensor a = logits(2, 3, 1, 2, 4, 1);
        next.add(batch(2, new long[] {0, 2, 3, 3, 0, 2}, 1, 1, 0, 0, 1, 1), a, a);
        assertEquals(2, reference(next).tokens());
        assertEquals(2, reference(next).perplexity(), 1e-6);
    }

    @Test
    void long_texts_weigh_more() {
        NextTokens next = new NextTokens();
        Tensor a = logits(1, 4, 1, 2, 4, 1);
        next.add(batch(1, new long[] {0, 2, 2, 2}), a, a); // three of ln 2
        next.add(batch(1, new long[] {0, 3}), logits(1, 2, 1, 2, 4, 1), logits(1, 2, 1, 2, 4, 1)); // one of ln 8
        assertEquals((3 * Math.log(2) + Math.log(8)) / 4, reference(next).loss(), 1e-7);
    }

    @Test
    void logits_too_great_for_exp_are_no_trouble() {
        NextTokens next = new NextTokens();
        Tensor a = Tensor.ofFloats(arena, "logits", Shape.of(1, 2, 4), 3e38f, 3e38f, -3e38f, -3e38f, 0, 0, 0, 0);
        next.add(batch(1, new long[] {0, 1}), a, a);
        assertEquals(2, reference(next).perplexity(), 1e-6);
    }

    @Test
    void texts_of_one_token_cannot_be_judged() {
        NextTokens next = new NextTokens();
        Tensor a = logits(1, 1, 1, 1, 1, 1);
        next.add(batch(1, new long[] {0}), a, a);
        assertThrows(InvalidDataException.class, () -> next.result("data"));
    }

    @Test
    void a_token_outside_the_vocabulary_is_refused() {
        NextTokens next = new NextTokens();
        Tensor a = logits(1, 2, 1, 1, 1, 1);
        InvalidDataException refusal =
                assertThrows(InvalidDataException.class, () -> next.add(batch(1, new long[] {0, WORDS}), a, a));
        assertTrue(refusal.what().contains("token 4"), refusal.what());
    }

    @Test
    void logits_of_whole_texts_are_refused() {
        NextTokens next = new NextTokens();
        Tensor classes = Tensor.ofFloats(arena, "logits", Shape.of(1, 2), 1, 2);
        assertThrows(InvalidDataException.class, () -> next.add(batch(1, new long[] {0, 1}), classes, classes));
    }
}
