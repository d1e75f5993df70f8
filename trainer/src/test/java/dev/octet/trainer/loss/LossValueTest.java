package dev.octet.trainer.loss;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LossValueTest {
    private static final LossValue SMALL = new LossValue(4, Map.of("task", 2.0), 1);
    private static final LossValue LARGE = new LossValue(1, Map.of("task", 6.0), 3);
    private static final LossValue EMPTY = new LossValue(Double.NaN, Map.of("task", Double.NaN), 0);

    private static Tensor longs(long... values) {
        return Tensor.ofLongs(Arena.ofAuto(), "t", Shape.of(2, values.length / 2), values);
    }

    @Test
    void in_a_mean_over_positions_each_position_weighs_the_same() {
        assertEquals(
                new LossValue(1.75, Map.of("task", 5.0), 4), LossValue.meanOverPositions(List.of(SMALL, EMPTY, LARGE)));
    }

    @Test
    void in_a_mean_over_micro_batches_each_micro_batch_weighs_the_same() {
        assertEquals(new LossValue(2.5, Map.of("task", 4.0), 4), LossValue.mean(List.of(SMALL, LARGE)));
    }

    @Test
    void a_mean_over_no_positions_is_no_number() {
        assertTrue(
                Double.isNaN(LossValue.meanOverPositions(List.of(EMPTY, EMPTY)).total()));
    }

    @Test
    void labels_that_are_ignored_do_not_count() {
        Map<String, Tensor> fed = Map.of("labels", longs(5, -100, 7, -100, -100, 9));
        assertEquals(3, new CountedPositions.Labelled("labels", -100, false).in(fed));
        assertEquals(5, new CountedPositions.Labelled("labels", 5, false).in(fed));
    }

    @Test
    void the_first_label_of_a_row_does_not_count_where_positions_are_scored_against_the_next() {
        Map<String, Tensor> fed = Map.of("labels", longs(5, -100, 7, -100, -100, 9));
        assertEquals(2, new CountedPositions.Labelled("labels", -100, true).in(fed));
    }

    @Test
    void masked_positions_do_not_count_whatever_the_masks_number_type() {
        Tensor longs = longs(1, 1, 0, 1, 0, 0);
        Tensor floats = Tensor.ofFloats(Arena.ofAuto(), "t", Shape.of(2, 3), 1, 1, 0, 1, 0, 0);
        Tensor bytes = Tensor.allocate(Arena.ofAuto(), new TensorSpec("t", DType.U8, Shape.of(2, 3)));
        bytes.bytes().asByteBuffer().put(new byte[] {1, 1, 0, 1, 0, 0});
        for (Tensor mask : List.of(longs, floats, bytes)) {
            assertEquals(
                    3,
                    new CountedPositions.Unmasked("mask").in(Map.of("mask", mask)),
                    mask.spec().toString());
        }
    }
}
