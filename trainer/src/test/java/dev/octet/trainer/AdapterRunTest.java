package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs that train an adapter. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AdapterRunTest {
    private static final String LORA = "adapter: {r: 2, lora_alpha: 4, target_modules: [first, second]}";

    @TempDir
    Path folder;

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options, int threads) throws IOException {
        try (Device device = CpuDevice.of(threads);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
        }
    }

    /** The small classifier, whose graph is brought to the sizes of a batch with what an adapter put into it. */
    private static TrainingParts parts(String yaml) {
        return adaptable(SmallRun.parts(yaml));
    }

    private static TrainingParts adaptable(TrainingParts parts) {
        GraphSource model =
                new GraphSource(parts.model().graph(), (graph, sizes) -> TrainingGraph.of(graph, sizes, new PassLog()));
        return new TrainingParts(parts.config(), model, parts.teacher(), parts.train(), parts.eval(), parts.inputs());
    }

    private List<Double> losses(String name, TrainingParts parts, int threads) throws IOException {
        run(parts, folder.resolve(name), RunOptions.defaults(), threads);
        return numbers(folder.resolve(name), "loss");
    }

    private static List<Double> numbers(Path run, String key) throws IOException {
        List<Double> numbers = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            if (node.has(key)) {
                numbers.add(node.get(key).asDouble());
            }
        }
        return numbers;
    }

    static List<String> methods() {
        return List.of(
                LORA,
                "adapter: {r: 2, use_dora: true, target_modules: [first, second]}",
                "adapter: {r: 2, init_lora_weights: pissa, target_modules: [first], bias: lora_only}",
                "adapter: {peft_type: IA3, target_modules: [first, second], feedforward_modules: [second]}",
                "adapter: {peft_type: BOTTLENECK, target_modules: [first], reduction_factor: 4, init_weights: zero}",
                "adapter: {peft_type: BITFIT}");
    }

    @ParameterizedTest
    @MethodSource("methods")
    void the_first_loss_is_the_base_s_the_base_stays_as_it_is_and_the_loss_falls(String adapter) throws IOException {
        TrainingParts plain = parts(SmallRun.with("steps: 4"));
        double base = losses("base", plain, 2).getFirst();
        TrainingParts parts = parts(SmallRun.with(adapter, "optimizer: {type: adamw, lr: 0.05}"));
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(parts, device);
                Arena arena = Arena.ofConfined()) {
            trainer.run(folder.resolve("run"), RunOptions.defaults());
            List<Double> losses = numbers(folder.resolve("run"), "loss");
            assertEquals(base, losses.getFirst(), 2e-6, adapter);
            assertTrue(losses.getLast() < losses.getFirst() - 0.05, adapter + losses);
            TreeMap<String, Tensor> all = new TreeMap<>(trainer.session().parameters(arena));
            TreeMap<String, Tensor> kept = new TreeMap<>(trainer.keptParameters(arena));
            assertTrue(kept.keySet().stream().allMatch(k -> k.startsWith("base_model.model.")), kept.keySet() + "");
            plain.model().graph().graph().initializers().forEach((name, constant) -> {
                Tensor now = all.get(name); // a parameter with a trained copy is in no program
                assertTrue(now != null || kept.size() >= 2, name);
                if (now != null) {
                    float[] before = constant.tensor().orElseThrow().toFloats();
                    assertArrayEquals(before, now.toFloats(), 0f, name);
                }
            });
            Set<String> states = new TreeMap<>(trainer.session().state(arena)).keySet();
            assertTrue(
                    states.stream().noneMatch(s -> s.contains("exp_avg") && !s.contains("base_model.model.")),
                    states.toString());
            assertEquals(
                    2L * kept.size(),
                    states.stream().filter(s -> s.contains("exp_avg")).count(),
                    states.toString());
        }
    }

    static List<String> precisionModes() {
        return TrainerTest.precisionModes();
    }

    @ParameterizedTest
    @MethodSource("precisionModes")
    void pieces_of_a_run_with_dropout_have_the_losses_of_the_whole(String precision) throws IOException {
        TrainingParts parts = parts(SmallRun.with(
                "gradient_accumulation: 2",
                "precision: " + precision,
                "adapter: {r: 2, lora_dropout: 0.3, use_dora: true, target_modules: [first, second]}"));
        assertPiecesAreTheWhole(parts);
    }

    @Test
    void pieces_of_a_distillation_have_the_losses_of_the_whole() throws IOException {
        assertPiecesAreTheWhole(adaptable(SmallRun.taught(
                SmallRun.with("loss: {type: cross-entropy, distillation: {teacher: made, temperature: 2}}", LORA))));
    }

    private void assertPiecesAreTheWhole(TrainingParts parts) throws IOException {
        List<Double> whole = losses("whole", parts, 2);
        Path pieces = folder.resolve("pieces");
        RunEnd end = run(parts, pieces, RunOptions.defaults().withMaxSteps(7), 2);
        while (end.reason() == RunEnd.Reason.INTERRUPTED) {
            end = run(parts, pieces, RunOptions.defaults().resuming().withMaxSteps(9), 3);
        }
        assertEquals(whole, numbers(pieces, "loss"));
        assertTrue(whole.getLast() < whole.getFirst(), whole.toString());
    }

    @Test
    void dropout_drops_the_same_for_any_number_of_threads_and_other_elements_for_another_seed() throws IOException {
        String adapter = "adapter: {r: 2, lora_dropout: 0.5, target_modules: [first]%s}";
        TrainingParts parts = parts(SmallRun.with(adapter.formatted("")));
        List<Double> one = losses("1", parts, 1);
        assertEquals(one, losses("3", parts, 3));
        TrainingParts other = parts(SmallRun.with(adapter.formatted(", dropout_seed: 2")));
        List<Double> reseeded = losses("other", other, 1);
        assertEquals(one.getFirst(), reseeded.getFirst(), 0); // B is 0
        assertNotEquals(one, reseeded);
    }

    @Test
    void evaluation_drops_nothing() throws IOException {
        for (String rate : List.of("0.0", "0.9")) {
            TrainingParts parts = parts(SmallRun.with(
                    "data: {train: made, eval: more}",
                    "eval_every: 40",
                    "optimizer: {type: adamw, lr: 0.0}",
                    "adapter: {r: 2, lora_dropout: " + rate + ", target_modules: [first]}"));
            run(parts, folder.resolve(rate), RunOptions.defaults(), 1);
        }
        assertEquals(numbers(folder.resolve("0.0"), "eval_loss"), numbers(folder.resolve("0.9"), "eval_loss"));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '"', textBlock = """
        {target_modules: [frist]}                      | target 'frist' matches none of the 2 modules | did you mean first?
        {r: 9, target_modules: [first]}                | rank 9 is larger than the smaller dimension of 'first', [16, 8] | lower r to 8 or less
        {r: 2, rank_pattern: {second: 4}, target_modules: [second]} | rank 4 is larger | lower rank_pattern to 3
        {r: 2}                                         | there are no default targets | all-linear
        {target_modules: [first], exclude_modules: [first]} | leave no target | name other targets
        {target_modules: [first], modules_to_save: [secnd]} | modules_to_save: 'secnd' matches no module | second
        {target_modules: [first], init_lora_weights: eva} | init_lora_weights is 'eva' | pissa
        {r: 3, target_modules: [first], init_lora_weights: orthogonal} | needs even ranks | set r to 4
        {target_parameters: [w1], target_modules: []}   | stacked weights of experts | target_modules
        {peft_type: LN_TUNING, target_modules: [first]} | which LN_TUNING does not change | modules_to_save
        {peft_type: LN_TUNING}                          | there are no default targets | list
        {peft_type: BOTTLENECK}                         | are not known for this model | target_modules
        """)
    void what_cannot_be_adapted_is_refused_with_line_and_fix(String adapter, String what, String fix) {
        OctetException e = assertThrows(OctetException.class, () -> {
            try (Device device = CpuDevice.of(1)) {
                Trainer.of(parts(SmallRun.with("adapter: " + adapter)), device).close();
            }
        });
        assertTrue(e.what().contains(what), e.what());
        assertTrue(e.where().startsWith("c.yaml, line 8, key adapter."), e.where());
        assertTrue(e.fix().contains(fix), e.fix());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{rank: 4}",
                "{lora_droput: 0.1}",
                "{peft_type: LORRA}",
                "{lora_dropout: 1.0}",
                "{r: 0}",
                "{bias: some}",
                "{use_dora: true, lora_bias: true}",
                "{peft_type: IA3, r: 4}"
            })
    void a_wrong_key_or_value_is_refused_with_its_line(String adapter) {
        OctetException e =
                assertThrows(OctetException.class, () -> SmallRun.config(SmallRun.with("adapter: " + adapter)));
        assertTrue(requireNonNull(e.where()).contains("c.yaml, line 8"), e.where());
    }
}
