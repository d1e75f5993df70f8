package dev.octet.pipeline.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.SplittableRandom;
import java.util.function.LongToDoubleFunction;
import java.util.stream.LongStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Two hundred steps of a loss that falls from 7 to 3, with what is planted in them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TriageTest {
    private static final int STEPS = 200;

    /** The batches of both runs are the same, and so is most of their noise. */
    private static double usual(long step) {
        double noise = new SplittableRandom(step).nextDouble(-0.1, 0.1);
        return 3 + 4 * Math.exp(-step / 60.0) + noise;
    }

    /** What rounding changes: a thousandth of the loss. */
    private static double rounded(long step) {
        return usual(step) * (1 + new SplittableRandom(7 * step).nextDouble(-1e-3, 1e-3));
    }

    private static Course course(LongToDoubleFunction loss) {
        return Course.of(1, LongStream.rangeClosed(1, STEPS).mapToDouble(loss).toArray());
    }

    private static Triage triage(LongToDoubleFunction run, LongToDoubleFunction baseline) {
        return Triage.of(course(run), course(baseline));
    }

    private static double bump(long step) {
        return step >= 120 && step < 126 ? 2 : 0;
    }

    @Test
    void runs_that_differ_by_rounding_are_healthy() {
        Triage triage = triage(TriageTest::rounded, TriageTest::usual);
        assertEquals(Symptom.NONE, triage.symptom(), triage.toString());
        assertEquals(0, triage.onset());
        assertTrue(Math.abs(triage.gap()) < 1e-3, triage.toString());
    }

    @Test
    void a_spike_of_both_is_not_the_fault_of_the_precision() {
        Triage triage = triage(s -> rounded(s) + bump(s), s -> usual(s) + 0.8 * bump(s));
        assertEquals(Symptom.SHARED_SPIKE, triage.symptom(), triage.toString());
        assertEquals(Symptom.Fault.TRAINING, triage.symptom().fault());
        assertEquals(120, triage.onset());
        assertEquals(125, triage.spikes().getFirst().last());
        assertTrue(triage.baselineSpikes().getFirst().recovers());
    }

    @Test
    void a_spike_that_the_baseline_does_not_have_is_the_precision() {
        Triage triage = triage(s -> rounded(s) + bump(s), TriageTest::usual);
        assertEquals(Symptom.OWN_SPIKE, triage.symptom(), triage.toString());
        assertEquals(120, triage.onset());
        assertEquals(Symptom.Fault.PRECISION, triage.symptom().fault());
    }

    /** The baseline comes back, the run does not. */
    @Test
    void a_spike_that_only_the_baseline_recovers_from_is_a_divergence() {
        Triage triage = triage(s -> rounded(s) + (s >= 120 ? 2 : 0), s -> usual(s) + bump(s));
        assertEquals(Symptom.LATE_DIVERGENCE, triage.symptom(), triage.toString());
        assertTrue(Math.abs(triage.onset() - 126) <= 6, triage.toString());
    }

    @Test
    void what_diverges_in_both_is_not_the_fault_of_the_precision() {
        Triage triage = triage(s -> rounded(s) + (s >= 120 ? 4 : 0), s -> usual(s) + (s >= 120 ? 4 : 0));
        assertEquals(Symptom.SHARED_DIVERGENCE, triage.symptom(), triage.toString());
    }

    @Test
    void a_gap_from_the_first_steps_is_told_from_a_late_one() {
        Triage early = triage(s -> rounded(s) * 1.03, TriageTest::usual);
        assertEquals(Symptom.EARLY_MISMATCH, early.symptom(), early.toString());
        assertEquals(1, early.onset());
        assertEquals(0.03, early.gap(), 2e-3);
        Triage late = triage(s -> rounded(s) * (1 + Math.max(0, s - 100) * 5e-4), TriageTest::usual);
        assertEquals(Symptom.LATE_DIVERGENCE, late.symptom(), late.toString());
        assertTrue(late.onset() > 100 && late.onset() < 125, late.toString());
    }

    @Test
    void a_gap_that_grows_from_the_start_began_there() {
        Triage triage = triage(s -> rounded(s) * (1 + 1e-3 * s), TriageTest::usual);
        assertEquals(Symptom.EARLY_MISMATCH, triage.symptom(), triage.toString());
    }

    @Test
    void a_loss_that_ends_as_nan_is_not_finite_from_its_first_nan_on() {
        Triage triage = triage(s -> s > 150 ? Double.NaN : rounded(s), TriageTest::usual);
        assertEquals(Symptom.NOT_FINITE, triage.symptom(), triage.toString());
        assertTrue(Math.abs(triage.onset() - 151) <= 5, triage.toString());
        Triage shared = triage(s -> s > 150 ? Double.NaN : rounded(s), s -> s > 150 ? Double.NaN : usual(s));
        assertEquals(Symptom.SHARED_DIVERGENCE, shared.symptom(), shared.toString());
    }

    /** A skipped step: the run goes on. */
    @Test
    void one_step_that_is_not_finite_is_a_spike() {
        Triage triage = triage(s -> s == 150 ? Double.NaN : rounded(s), TriageTest::usual);
        assertEquals(Symptom.OWN_SPIKE, triage.symptom(), triage.toString());
        assertEquals(Double.POSITIVE_INFINITY, triage.spikes().getFirst().peak());
    }

    /** A run of another seed departs by more in single steps than in the mean. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5})
    void scatter_alone_is_no_mismatch(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        double[] noisy = LongStream.rangeClosed(1, STEPS)
                .mapToDouble(s -> usual(s) * (1 + random.nextDouble(-0.02, 0.02)))
                .toArray();
        Triage triage = Triage.of(Course.of(1, noisy), course(TriageTest::usual));
        assertEquals(Symptom.NONE, triage.symptom(), triage.toString());
    }

    @Test
    void a_falling_loss_has_no_spikes_of_its_own() {
        assertTrue(Triage.suspect(course(TriageTest::usual)).isEmpty());
        assertEquals(
                120,
                Triage.suspect(course(s -> usual(s) + bump(s))).orElseThrow().first());
    }

    @Test
    void steps_that_were_done_again_count_as_they_were_done_last() {
        Course course = Course.ofWritten(java.util.List.of(
                new Course.Point(1, 3, 1),
                new Course.Point(2, 9, 1),
                new Course.Point(2, 2, 1),
                new Course.Point(3, 1, 1)));
        assertEquals(3, course.size());
        assertEquals(2, course.points().get(1).loss());
    }

    @Test
    void nine_steps_say_nothing() {
        Course nine = Course.of(1, new double[9]);
        assertThrows(IllegalArgumentException.class, () -> Triage.of(nine, nine));
    }
}
