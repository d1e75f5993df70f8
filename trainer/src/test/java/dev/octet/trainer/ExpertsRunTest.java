package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.hook.Gradients;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What a run says of the experts of a mixture: each by its name, over the rows that reach it. */
@ParameterizedClass
@MethodSource("devices")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ExpertsRunTest {
    private static final Path MIXTRAL = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf/mixtral");
    private static final int HIDDEN = 16;
    private static final int INNER = 24;
    private static final int EXPERTS = 5;
    private static final int CHOICES = 2;
    private static final int LENGTH = 8;
    private static final int BATCH = 2;
    private static final long ROWS = (long) BATCH * LENGTH * CHOICES;
    private static final String BLOCK = "model.layers.0.block_sparse_moe.experts.";

    private final Supplier<Device> made;

    @TempDir
    Path folder;

    ExpertsRunTest(Supplier<Device> made) {
        this.made = made;
    }

    static Stream<Named<Supplier<Device>>> devices() {
        return Stream.of(Named.of("processor", () -> CpuDevice.of(2)), Named.of("GPU", () -> TestGpus.hostDevice(90)));
    }

    /** Runs with a weight changed beforehand. */
    private RunEnd run(String name, Consumer<Tensor> change, List<TrainingHook> hooks, String... lines)
            throws IOException {
        String yaml = "data: {train: made, shuffle: false}\nloss: {type: causal-lm}\nbatch_size: " + BATCH
                + "\nsteps: 3\noptimizer: {type: sgd, lr: 0.001}\n" + String.join("\n", lines) + "\n";
        try (ModelSource source = ModelSource.open(MIXTRAL);
                Converter converter = Converter.of(source.model());
                Arena arena = Arena.ofShared()) {
            GraphEdit edit = GraphEdit.of(converter.canonical().graph());
            if (!name.isEmpty()) {
                Tensor old = requireNonNull(edit.initializer(name)).tensor().orElseThrow();
                Tensor copy = Tensor.allocate(arena, old.spec());
                copy.bytes().copyFrom(old.bytes());
                change.accept(copy);
                edit.putInitializer(Initializer.of(copy));
            }
            GraphModel model = converter.canonical().withGraph(edit.build());
            TrainingParts parts = new TrainingParts(
                    SmallRun.config(yaml),
                    new GraphSource(model, (graph, sizes) -> TrainingGraph.of(graph, sizes, new PassLog())),
                    Optional.empty(),
                    new RandomTokens(8, LENGTH),
                    Optional.empty(),
                    Map.of("model", "abc"));
            try (Device device = made.get();
                    Trainer trainer = Trainer.of(parts, device)) {
                return trainer.run(folder, RunOptions.defaults().withHooks(hooks));
            }
        }
    }

    /** What was measured in a step, by name. */
    private static Map<String, Fp8Tensor> tensors(WatchedFp8 watch, int step) {
        Map<String, Fp8Tensor> byName = new TreeMap<>();
        watch.reports().get(step - 1).tensors().forEach(t -> byName.put(t.name(), t));
        return byName;
    }

    private static long elements(Map<String, Fp8Tensor> tensors, String linear, LinearTensor tensor) {
        return tensors.values().stream()
                .filter(t -> t.layer().startsWith(BLOCK) && t.layer().endsWith("." + linear) && t.tensor() == tensor)
                .mapToLong(Fp8Tensor::elements)
                .sum();
    }

    @ParameterizedTest
    @ValueSource(strings = {"current", "delayed", "mxfp8"})
    void health_counts_the_rows_weights_and_gradients_of_each_expert(String recipe) throws IOException {
        WatchedFp8 watch = new WatchedFp8();
        run("", _ -> {}, List.of(watch), "precision: {mode: fp8, recipe: " + recipe + "}");
        Map<String, Fp8Tensor> tensors = tensors(watch, 1);
        // MXFP8 casts rows and gradients along rows for one product and along columns for the other
        long ways = recipe.equals("mxfp8") ? 2 : 1;
        assertEquals(ways * ROWS * HIDDEN, elements(tensors, "w1", LinearTensor.INPUT), "every choice is one row");
        assertEquals(0, elements(tensors, "w3", LinearTensor.INPUT), "which reads the rows of w1");
        assertEquals(ways * ROWS * INNER, elements(tensors, "w2", LinearTensor.INPUT));
        assertEquals(ways * ROWS * INNER, elements(tensors, "w1", LinearTensor.GRAD_OUTPUT));
        assertEquals(ways * ROWS * INNER, elements(tensors, "w3", LinearTensor.GRAD_OUTPUT));
        assertEquals(ways * ROWS * HIDDEN, elements(tensors, "w2", LinearTensor.GRAD_OUTPUT));
        assertEquals(ways * EXPERTS * INNER * HIDDEN, elements(tensors, "w2", LinearTensor.WEIGHT));
        assertTrue(tensors.keySet().containsAll(List.of(BLOCK + "0.w1.weight", BLOCK + "4.w3.weight")));
    }

    @Test
    void the_expert_that_clips_is_named() throws IOException {
        WatchedFp8 watch = new WatchedFp8();
        run(
                BLOCK + "2.w3.weight",
                w -> {
                    for (long i = 0; i < w.shape().elementCount(); i++) {
                        w.bytes().setAtIndex(Tensor.F32_LE, i, 1e6f);
                    }
                },
                List.of(watch),
                "precision: {mode: fp8, recipe: delayed, amax_history_len: 4}");
        List<String> clipped = tensors(watch, 1).values().stream()
                .filter(t -> t.clipped() > 0 && t.layer().startsWith(BLOCK))
                .map(Fp8Tensor::name)
                .filter(n -> !n.endsWith("grad_output"))
                .toList();
        // scales begin at 1; its w3 makes large what its w2 reads
        assertEquals(List.of(BLOCK + "2.w2.input", BLOCK + "2.w3.weight"), clipped);
        assertEquals(
                (long) INNER * HIDDEN,
                requireNonNull(tensors(watch, 1).get(BLOCK + "2.w3.weight")).clipped());
    }

    @Test
    void measuring_experts_leaves_every_bit_of_a_run() throws IOException {
        List<String> losses = new ArrayList<>();
        for (String more : List.of(
                "fp8_health: {every: 0}",
                "guard: {every: 1, warm_up: 1000000}",
                "debug: {all: {enabled: true, layers: {layer_types: [all]}, transformer_engine: {LogTensorStats:"
                        + " {enabled: true, tensors: [activation, gradient, weight, output, dgrad, wgrad], stats:"
                        + " [mean]}}}}")) {
            StringBuilder seen = new StringBuilder();
            try (Stream<Path> all = Files.walk(folder)) {
                for (Path p : all.sorted((a, b) -> b.compareTo(a)).toList()) {
                    if (!p.equals(folder)) {
                        Files.delete(p);
                    }
                }
            }
            run("", _ -> {}, List.of(), "precision: {mode: fp8, recipe: delayed}", more);
            for (String line : Files.readAllLines(folder.resolve("metrics.jsonl"))) {
                JsonNode m = new ObjectMapper().readTree(line);
                seen.append(m.path("loss"))
                        .append(' ')
                        .append(m.path("grad_norm"))
                        .append('\n');
            }
            losses.add(seen.toString());
        }
        assertEquals(losses.get(0), losses.get(1));
        assertEquals(losses.get(0), losses.get(2));
    }

    private List<JsonNode> lines(String file) throws IOException {
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve(file))) {
            lines.add(new ObjectMapper().readTree(line));
        }
        return lines;
    }

    @ParameterizedTest
    @ValueSource(strings = {"{mode: fp32}", "{mode: fp8, recipe: current}"})
    void debug_reads_weights_and_gradients_of_each_expert_as_the_step_has_them(String precision) throws IOException {
        Map<String, Double> norms = new TreeMap<>();
        TrainingHook hook = new TrainingHook() {
            @Override
            public boolean watchesGradients() {
                return true;
            }

            @Override
            public void afterBackward(long step, Gradients all) {
                for (int e = 0; step == 1 && e < EXPERTS; e++) {
                    double squares = 0;
                    for (float g : all.read(BLOCK + e + ".w1.weight")) {
                        squares += (double) g * g;
                    }
                    norms.put(BLOCK + e + ".w1", Math.sqrt(squares));
                }
            }
        };
        run(
                "",
                _ -> {},
                List.of(hook),
                "precision: " + precision,
                "debug: {all: {enabled: true, layers: {layer_name_regex_pattern: 'layers.0.*experts'},"
                    + " transformer_engine: {LogTensorStats: {enabled: true, tensors: [activation, gradient, weight,"
                    + " wgrad], stats: [l2_norm, cur_amax]}}}}");
        Map<String, Double> seen = new TreeMap<>();
        int activations = 0;
        for (JsonNode line : lines("debug.jsonl")) {
            String layer = line.path("layer").asText();
            if (line.path("iteration").asLong() == 1 && layer.endsWith(".w1")) {
                if (line.path("tensor").asText().equals("wgrad")) {
                    seen.put(layer, line.path("stats").path("l2_norm").asDouble());
                }
                activations += line.path("tensor").asText().equals("activation") ? 1 : 0;
            }
        }
        assertNotEquals(0, seen.size());
        assertEquals(seen.size(), activations, "experts that some token reached");
        norms.forEach((layer, norm) ->
                assertEquals(norm, seen.getOrDefault(layer, 0.0), 1e-5 * norm, layer)); // F32 sums in another order
    }

    @Test
    void a_guard_demotes_the_experts_of_a_step_together_and_names_the_one_that_clips() throws IOException {
        RunEnd end = run(
                BLOCK + "2.w1.weight",
                w -> w.bytes().setAtIndex(Tensor.F32_LE, 5, 1000f),
                List.of(),
                "precision: {mode: fp8, recipe: delayed, amax_history_len: 4}",
                "guard: {every: 1, warm_up: 0, clipped: {demote: 0.002, promote: 0.001},"
                        + " cast_error: {demote: 1000, promote: 999}, underflowed: {demote: 1, promote: 0.9}}");
        assertEquals(RunEnd.Reason.COMPLETED, end.reason());
        List<JsonNode> demoted = lines("guard.jsonl").stream()
                .filter(l -> l.path("product").asText().equals(BLOCK + "*.w1.fprop"))
                .toList();
        assertEquals("demoted", demoted.getFirst().path("decision").asText());
        assertEquals("clipped", demoted.getFirst().path("trigger").asText());
        assertEquals(BLOCK + "2.w1", demoted.getFirst().path("expert").asText());
        assertEquals(1.0 / (INNER * HIDDEN), demoted.getFirst().path("value").asDouble(), 1e-9);
        assertTrue(
                lines("guard.jsonl").stream()
                        .noneMatch(l -> l.path("product").asText().contains("experts.2")),
                "products of one expert alone are none");
    }
}
