package dev.octet.trainer.device.cpu;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.activation.ActivationSettings;
import dev.octet.trainer.activation.StepCost;
import dev.octet.trainer.activation.TinyRun;
import dev.octet.trainer.device.DryDevice;
import dev.octet.trainer.gemm.Gemms;
import dev.octet.trainer.hook.StepWork;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.Parallel;
import dev.octet.trainer.op.experts.GroupedLinear;
import dev.octet.trainer.op.product.Linear;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.step.TrainingSession;
import java.io.IOException;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StepTrialTest {
    /** Rates by which a step takes as many seconds as a thousandth of its operations, or a millionth of its bytes and its casts. */
    private static final CpuRates RATES = new CpuRates(1e9, 1e6, 1e6);

    private static final CpuContext CPU = new CpuContext(Parallel.ALONE, Gemms.best());

    private static StepWork work(String model, PrecisionPolicy policy) throws IOException {
        try (TinyRun run = TinyRun.open(model);
                TrainingSession session = new TrainingSession(
                        run.setup(policy, ActivationSettings.NONE), new DryDevice(CpuDevice.of(1)))) {
            return session.work(run.batch(0));
        }
    }

    private static StepTrial trial(StepWork work, long mostBytes) {
        return StepTrial.of(CPU, RATES, new StepTrial.Steps(work.steps(), work.states()), mostBytes, 0);
    }

    private static double reckoned(Step s) {
        return s.isView()
                ? 0
                : StepCost.isProduct(s)
                        ? StepCost.of(s).flops() / 1e9
                        : (StepCost.of(s).bytes() + StepCost.casts(s)) / 1e6;
    }

    private static List<Step> steps(StepWork work, Predicate<Step> which) {
        return work.steps().stream().filter(which).toList();
    }

    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "llama", "gemma2", "bert-cls", "vit", "mixtral", "deepseek-v3", "gpt-oss"})
    void every_kind_of_step_of_a_model_can_be_tried(String model) throws IOException {
        for (String policy : List.of("fp32", "bf16", "delayed", "block", "mxfp8")) {
            StepWork work = work(model, requireNonNull(TinyRun.policies().get(policy)));
            StepTrial trial = trial(work, 1 << 28);
            for (Step s : steps(work, s -> !s.isView())) {
                double seconds = trial.seconds(List.of(s));
                assertTrue(seconds > 0 && seconds < 1, s.op().type() + " takes " + seconds);
            }
        }
    }

    @Test
    void steps_take_their_sum_and_those_that_differ_in_their_values_alone_take_the_same() throws IOException {
        StepWork work = work("gpt2", PrecisionPolicy.FP32);
        StepTrial trial = trial(work, 1 << 28);
        List<Step> squares = steps(work, s -> s.op() instanceof Linear l && l.in() == l.out() && !s.backward());
        assertEquals(2, squares.size());
        assertEquals(trial.seconds(squares.subList(0, 1)), trial.seconds(squares.subList(1, 2)));
        double sum = work.steps().stream()
                .mapToDouble(s -> trial.seconds(List.of(s)))
                .sum();
        assertEquals(sum, trial.seconds(work.steps()), 1e-9 * sum);
    }

    @Test
    void without_memory_to_try_in_steps_are_reckoned_by_rates() throws IOException {
        StepWork work = work("gpt2", requireNonNull(TinyRun.policies().get("delayed")));
        StepTrial trial = trial(work, 0);
        for (Step s : work.steps()) {
            double expected = reckoned(s);
            assertEquals(expected, trial.seconds(List.of(s)), 1e-9 * expected, s.op().type());
        }
    }

    @Test
    void products_of_experts_are_reckoned_by_the_rate_of_the_other_products() throws IOException {
        StepWork work = work("mixtral", PrecisionPolicy.FP32);
        StepTrial trial = trial(work, 1 << 28);
        List<Step> experts = steps(work, s -> s.op() instanceof GroupedLinear);
        assertTrue(experts.size() >= 12, experts.size() + " products of experts");
        double rate = StepCost.of(experts.getFirst()).flops() / trial.seconds(experts.subList(0, 1));
        for (Step s : experts) {
            double expected = StepCost.of(s).flops() / rate;
            assertEquals(expected, trial.seconds(List.of(s)), 1e-9 * expected);
        }
    }

    /** An update that a flag of noise leaves out takes a third of its time. */
    @Test
    void updates_start_from_the_states_of_a_run() throws IOException {
        StepWork work = work("gpt2", PrecisionPolicy.FP32);
        Set<String> named =
                Set.copyOf(work.states().keySet().stream().map(v -> v.name()).toList());
        assertTrue(named.contains("loss_non_finite"), named + "");
        assertTrue(work.once().stream()
                .filter(s -> s.op().type().equals("AdamW"))
                .flatMap(s -> s.inputs().stream().skip(2))
                .allMatch(v -> v == null
                        || work.states().containsKey(v)
                        || work.once().stream().anyMatch(o -> o.results().contains(v))));
    }

    @Test
    void the_gradient_of_a_bias_is_no_product() throws IOException {
        StepWork work = work("gpt2", PrecisionPolicy.FP32);
        Step backward = steps(work, s -> s.op() instanceof Linear l && l.hasBias() && s.backward())
                .getFirst();
        Linear l = (Linear) backward.op();
        assertEquals(2 * 2L * l.rows() * l.in() * l.out(), StepCost.of(backward).flops());
    }
}
