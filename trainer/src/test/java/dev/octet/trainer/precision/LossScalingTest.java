package dev.octet.trainer.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.trainer.precision.LossScaling.ApexScaler;
import dev.octet.trainer.precision.LossScaling.DeepSpeedScaler;
import dev.octet.trainer.precision.LossScaling.GradScaler;
import dev.octet.trainer.precision.LossScaling.State;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LossScalingTest {
    private static State clean(LossScaling scaling, State state, int steps) {
        State s = state;
        for (int i = 0; i < steps; i++) {
            s = scaling.next(s, false);
        }
        return s;
    }

    @Test
    void torch_halves_at_each_overflow_and_doubles_after_an_interval() {
        GradScaler scaling = new GradScaler(1024, 2, 0.5f, 3);
        State s = clean(scaling, scaling.initial(), 2);
        assertEquals(1024, s.scale());
        s = scaling.next(s, false);
        assertEquals(2048, s.scale());
        assertEquals(0, s.clean());
        s = clean(scaling, s, 2);
        s = scaling.next(s, true);
        assertEquals(1024, s.scale());
        assertEquals(0, s.clean(), "the tracker begins anew");
        s = scaling.next(scaling.next(s, true), true);
        assertEquals(256, s.scale());
    }

    @Test
    void torch_begins_at_65536_and_grows_after_2000_steps() {
        State s = clean(GradScaler.DEFAULT, GradScaler.DEFAULT.initial(), 1999);
        assertEquals(65536, s.scale());
        assertEquals(131072, GradScaler.DEFAULT.next(s, false).scale());
    }

    @Test
    void torch_can_fall_to_zero_and_does_not_grow_to_infinity() {
        State s = GradScaler.DEFAULT.initial();
        for (int i = 0; i < 200; i++) {
            s = GradScaler.DEFAULT.next(s, true);
        }
        assertEquals(0, s.scale());
        GradScaler steep = new GradScaler(0x1p127f, 2, 0.5f, 1);
        assertEquals(0x1p127f, steep.next(steep.initial(), false).scale());
    }

    @Test
    void gradients_are_multiplied_by_the_reciprocal_divided_in_fp64() {
        assertEquals((float) (1.0 / 3.0), GradScaler.DEFAULT.inverse(new State(3, 0, 0, 0, -1)));
    }

    @Test
    void deepspeed_burns_hysteresis_before_it_halves_and_grows_a_window_after_the_overflow() {
        DeepSpeedScaler scaling = DeepSpeedScaler.DEFAULT;
        State s = scaling.next(scaling.initial(), true);
        assertEquals(65536, s.scale());
        assertEquals(1, s.hysteresis());
        s = scaling.next(s, true);
        assertEquals(32768, s.scale());
        s = clean(scaling, s, 1000); // iterations 2 .. 1001
        assertEquals(32768, s.scale());
        assertEquals(1, s.hysteresis());
        s = scaling.next(s, false); // iteration 1002
        assertEquals(65536, s.scale());
        assertEquals(2, s.hysteresis());
        assertEquals(1003, s.steps());
    }

    @Test
    void deepspeed_without_overflow_first_grows_after_a_window_and_one() {
        DeepSpeedScaler scaling = new DeepSpeedScaler(4, 10, 2, false, 1);
        State s = clean(scaling, scaling.initial(), 10);
        assertEquals(16, s.scale());
        s = scaling.next(s, false);
        assertEquals(32, s.scale());
        assertEquals(64, clean(scaling, s, 10).scale());
    }

    @Test
    void deepspeed_refills_hysteresis_at_each_clean_step_when_asked_to() {
        DeepSpeedScaler scaling = new DeepSpeedScaler(4, 10, 2, true, 1);
        State s = scaling.next(scaling.next(scaling.initial(), true), false);
        assertEquals(2, s.hysteresis());
        assertEquals(16, scaling.next(s, true).scale());
    }

    @Test
    void deepspeed_ends_the_run_when_the_smallest_scale_overflows() {
        DeepSpeedScaler scaling = new DeepSpeedScaler(1, 10, 1, false, 1);
        State s = scaling.next(scaling.initial(), true);
        assertEquals(1, s.scale());
        assertThrows(InvalidDataException.class, () -> scaling.next(s, true));
    }

    @Test
    void apex_doubles_after_its_window_up_to_its_limit() {
        ApexScaler scaling = new ApexScaler(0x1p16f, 2, 0x1p17f);
        State s = clean(scaling, scaling.initial(), 2);
        assertEquals(0x1p17f, s.scale());
        s = clean(scaling, s, 2);
        assertEquals(0x1p17f, s.scale(), "the limit");
        s = scaling.next(scaling.next(s, false), true);
        assertEquals(0x1p16f, s.scale());
        assertEquals(0, s.clean());
    }

    @Test
    void a_fixed_scale_counts_steps_and_stays() {
        LossScaling.Fixed scaling = new LossScaling.Fixed(128);
        State s = scaling.next(scaling.next(scaling.initial(), true), false);
        assertEquals(new State(128, 0, 0, 2, 0), s);
    }
}
