package dev.octet.trainer.activation;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.adapter.AdaptedGraph;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.adapter.InitialValues;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.GraphSource;
import dev.octet.trainer.step.StepResult;
import dev.octet.trainer.step.TrainingSession;
import dev.octet.trainer.step.TrainingSetup;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.LongStream;

/** A few steps of a tiny checkpoint of {@code testdata/models/tiny-hf}: everything that comes out of them, as bytes. */
public final class TinyRun implements AutoCloseable {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models");
    private static final int SEQUENCE = 12;
    private static final int ROWS = 2;
    private static final int MICRO_BATCHES = 2;

    private final GraphModel model;
    private final Parameters parameters;
    private final Set<String> trained;
    private final boolean perToken;
    private final Runnable closing;
    private int rows = ROWS;

    private TinyRun(GraphModel model, Parameters parameters, Set<String> trained, boolean perToken, Runnable closing) {
        this.model = model;
        this.parameters = parameters;
        this.trained = trained;
        this.perToken = perToken;
        this.closing = closing;
    }

    /** @param rows of a micro-batch */
    static TinyRun open(String name, int rows) throws IOException {
        TinyRun run = open(name);
        run.rows = rows;
        return run;
    }

    /** F32, the base types, and FP8 in each recipe, by name. */
    public static Map<String, PrecisionPolicy> policies() {
        Map<String, PrecisionPolicy> all = new LinkedHashMap<>();
        all.put("fp32", PrecisionPolicy.FP32);
        all.put("bf16", Autocast.bf16());
        all.put("fp16", Autocast.fp16());
        Section usual = YamlFile.parse("{}", "none.yaml");
        for (var recipe : Recipes.TRAINING.entrySet()) {
            TrainingRecipe r = recipe.getValue().apply(usual);
            all.put(recipe.getKey(), new Fp8Policy(Autocast.bf16(), Fp8Settings.of(r)));
        }
        return all;
    }

    /** A checkpoint by its folder, or an export by its file's name. */
    public static TinyRun open(String name) throws IOException {
        ModelSource source = ModelSource.open(
                MODELS.resolve(name.endsWith(".onnx") ? "tiny-onnx" : "tiny-hf").resolve(name));
        Converter converter = Converter.of(source.model());
        boolean perToken = !name.startsWith("vit") && !name.equals("bert-cls");
        Parameters all = Parameters.of(converter.canonical().graph());
        return new TinyRun(converter.canonical(), all, all.names(), perToken, closing(source, converter));
    }

    /** A checkpoint with an adapter of its attention and its MLP, which alone is trained. */
    static TinyRun adapted(String name, String... targets) throws IOException {
        ModelSource source = ModelSource.open(MODELS.resolve("tiny-hf").resolve(name));
        Converter converter = Converter.of(source.model());
        GraphModel base = Ties.restore(
                converter.canonical(), Ties.find(converter.canonical().graph()));
        ObjectNode json = new ObjectMapper().createObjectNode();
        json.put("peft_type", "LORA").put("r", 4).put("lora_alpha", 8).put("init_lora_weights", "gaussian");
        List.of(targets).forEach(json.withArray("target_modules")::add);
        AdaptedGraph adapted =
                new AdapterSettings(PeftConfig.of(json), Optional.empty(), 1).adapt(base, InitialValues.seeded(1));
        Parameters all =
                Parameters.of(adapted.model().graph()).with(adapted.model().graph(), adapted.trained());
        return new TinyRun(adapted.model(), all, adapted.trained(), true, closing(source, converter));
    }

    /** A classifier of {@code pixel_values}, F32 [2, 3, 16, 16]. */
    static TinyRun ofImages(GraphModel model) {
        Parameters all = Parameters.of(model.graph());
        return new TinyRun(model, all, all.names(), false, () -> {});
    }

    private static Runnable closing(ModelSource source, Converter converter) {
        return () -> {
            converter.close();
            source.close();
        };
    }

    GraphModel model() {
        return model;
    }

    public TrainingSetup setup(PrecisionPolicy policy, ActivationSettings activations) {
        LossConfig loss = new LossConfig(
                perToken ? LossConfig.Type.CAUSAL_LM : LossConfig.Type.CROSS_ENTROPY,
                Optional.empty(),
                "labels",
                -100,
                Optional.empty());
        return new TrainingSetup(
                        new GraphSource(model(), (graph, sizes) -> TrainingGraph.of(graph, sizes, new PassLog())),
                        parameters,
                        trained,
                        loss,
                        policy,
                        LossScaling.Fixed.NONE,
                        Optimizer.Adam.ADAMW,
                        List.of(),
                        1.0,
                        List.of())
                .withActivations(activations);
    }

    /** Micro-batch {@code number} of the run. */
    public MicroBatch batch(int number) {
        SplittableRandom random = new SplittableRandom(number);
        Arena arena = Arena.ofAuto();
        Map<String, Tensor> tensors = new TreeMap<>();
        model().graph().requiredInputs().forEach(input -> {
            if (input.name().equals("pixel_values")) {
                Shape shape = Shape.of(rows, 3, 16, 16);
                float[] x = new float[(int) shape.elementCount()];
                for (int i = 0; i < x.length; i++) {
                    x[i] = (float) random.nextGaussian();
                }
                tensors.put(input.name(), Tensor.ofFloats(arena, input.name(), shape, x));
            } else {
                tensors.put(
                        input.name(),
                        longs(arena, input.name(), random, input.name().equals("input_ids") ? 30 : 0));
            }
        });
        tensors.put(
                "labels",
                perToken
                        ? longs(arena, "labels", random, 30)
                        : Tensor.ofLongs(
                                arena,
                                "labels",
                                Shape.of(rows),
                                LongStream.range(0, rows).map(i -> i % 2).toArray()));
        return new MicroBatch(number, LongStream.range(0, rows).boxed().toList(), tensors);
    }

    private Tensor longs(Arena arena, String name, SplittableRandom random, int below) {
        long[] all = new long[rows * SEQUENCE];
        for (int i = 0; i < all.length; i++) {
            all[i] = below > 0 ? random.nextInt(below) : name.contains("mask") ? 1 : 0;
        }
        return Tensor.ofLongs(arena, name, Shape.of(rows, SEQUENCE), all);
    }

    /** Losses, gradients, weights and states of some steps, as bytes by name. */
    public Map<String, byte[]> steps(int count, PrecisionPolicy policy, ActivationSettings activations, Device device) {
        Map<String, byte[]> all = new TreeMap<>();
        try (TrainingSession session = new TrainingSession(setup(policy, activations), device);
                Arena arena = Arena.ofConfined()) {
            for (int step = 1; step <= count; step++) {
                List<MicroBatch> batches = new ArrayList<>();
                for (int i = 0; i < MICRO_BATCHES; i++) {
                    batches.add(batch(step * MICRO_BATCHES + i));
                }
                String at = "step " + step + " ";
                StepResult result = session.step(
                        batches,
                        0.01,
                        gradients -> gradients.names().forEach(n -> {
                            float[] g = gradients.read(n);
                            all.put(at + "gradient " + n, bytes(Tensor.ofFloats(arena, n, Shape.of(g.length), g)));
                        }),
                        step == count);
                all.put(at + "result", result.toString().getBytes(StandardCharsets.UTF_8));
                session.parameters(arena).forEach((n, t) -> all.put(at + "weight " + n, bytes(t)));
                session.state(arena).forEach((n, t) -> all.put(at + "state " + n, bytes(t)));
            }
        }
        return all;
    }

    private static byte[] bytes(Tensor t) {
        return t.bytes().toArray(ValueLayout.JAVA_BYTE);
    }

    /** Requires gradients that are off by so much of the norm of all of them at most, and by something. */
    public static void requireNear(Map<String, byte[]> expected, Map<String, byte[]> actual, double limit) {
        double difference = 0;
        double all = 0;
        for (Map.Entry<String, byte[]> e : expected.entrySet()) {
            if (e.getKey().contains("gradient ")) {
                float[] wanted = floats(e.getValue());
                float[] got = floats(requireNonNull(actual.get(e.getKey())));
                for (int i = 0; i < wanted.length; i++) {
                    difference += Math.pow(wanted[i] - got[i], 2);
                    all += Math.pow(wanted[i], 2);
                }
            }
        }
        double error = Math.sqrt(difference / all);
        assertTrue(error > 0 && error <= limit, "relative error of all gradients: " + error);
    }

    private static float[] floats(byte[] bytes) {
        float[] all = new float[bytes.length / Float.BYTES];
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(all);
        return all;
    }

    @Override
    public void close() {
        closing.run();
    }
}
