package dev.octet.trainer.op.dropout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import dev.octet.trainer.op.TwinTest;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

class DropoutTest extends TwinTest {
    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        return List.of(dropped(0.1, 1, 1), dropped(0.5, 3, 7), dropped(0.9, 5, 1111), dropped(0, 2, 3));
    }

    private static Case dropped(double p, long... dims) {
        Dropout op = new Dropout(f32(dims), p, 42);
        return Case.normal(op + "", op, op.x(), Dropout.DRAW_TYPE);
    }

    private static long kept(Dropout op, long step, long microBatch) {
        long key = op.key(step, microBatch);
        return LongStream.range(0, op.x().count())
                .filter(i -> Dropout.bits(key, i) >= op.threshold())
                .count();
    }

    @Test
    void each_element_is_kept_with_its_probability() {
        for (double p : new double[] {0.05, 0.5, 0.9}) {
            Dropout op = new Dropout(f32(1_000_000), p, 3);
            // five standard deviations
            assertEquals(1 - p, kept(op, 1, 0) / 1e6, 5 * Math.sqrt(p * (1 - p) / 1e6), "p " + p);
        }
    }

    @Test
    void seed_step_and_micro_batch_each_give_another_mask() {
        Dropout op = new Dropout(f32(64), 0.5, 3);
        List<Long> keys = List.of(op.key(1, 0), op.key(1, 1), op.key(2, 0), new Dropout(op.x(), 0.5, 4).key(1, 0));
        assertEquals(4, keys.stream().distinct().count());
        int[][] masks = keys.stream()
                .map(k -> IntStream.range(0, 64)
                        .map(i -> Dropout.bits(k, i) >= op.threshold() ? 1 : 0)
                        .toArray())
                .toArray(int[][]::new);
        for (int i = 1; i < masks.length; i++) {
            assertNotEquals(Arrays.toString(masks[0]), Arrays.toString(masks[i]));
        }
    }
}
