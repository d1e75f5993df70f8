package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.compare.CompareOptions;
import dev.octet.converter.compare.TensorComparison;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipes;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.step.StepResult;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The code of docs/library.md, compiled and run. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TourTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path ROOT =
            Objects.requireNonNull(TESTDATA.toAbsolutePath().normalize().getParent());
    private static final Path PAGE = ROOT.resolve("docs/library.md");
    private static final Path SOURCE = ROOT.resolve("pipeline/src/test/java/dev/octet/pipeline/TourTest.java");
    private static final Path SOURCES = ROOT.resolve("pipeline/src/main/java/dev/octet/pipeline");
    private static final Pattern PIECE = Pattern.compile("```java\n(.*?)```\n", Pattern.DOTALL);

    /** What this class imports, as the page does; types of its own package are in neither list. */
    private static final List<String> IMPORTED =
            lines(SOURCE).stream().filter(l -> l.matches("import [\\w.]+;")).toList();

    private static final Path MODELS = TESTDATA.resolve("models");
    private static final Path BERT = MODELS.resolve("tiny-onnx/bert_eager_script17.onnx");
    private static final Path LLAMA = MODELS.resolve("tiny-hf/llama");
    private static final Job JOB = Job.defaults().withThreads(2);
    private static final int TOKENS = 12;
    private static final int WORDS = 101;

    @TempDir
    Path folder;

    private static List<String> lines(Path file) {
        try {
            return Files.readAllLines(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    // quantize
    static Quantize.GraphResult quantize(Path model, Path samples, Path output, Job job) throws IOException {
        return Quantize.run(Quantize.GraphRequest.of(model, output).withSamples(SampleSource.of(samples)), job);
    }

    static CheckpointOutcome quantize(Path checkpoint, Path output, Job job) throws IOException {
        return Quantize.run(Quantize.CheckpointRequest.of(checkpoint, output, Recipes.FP8_DYNAMIC), job);
    }
    // end

    // calibrate
    static Calibrate.Result calibrate(Path model, Path samples, Path statistics, Job job) throws IOException {
        return Calibrate.run(Calibrate.Request.of(model, statistics, SampleSource.of(samples)), job);
    }
    // end

    // convert
    static CheckpointOutcome convert(Path checkpoint, Path output, Job job) throws IOException {
        Target.Checkpoint modelopt =
                (Target.Checkpoint) Target.named("modelopt").orElseThrow();
        return Convert.run(Convert.ToLayout.of(checkpoint, output, modelopt), job);
    }

    static Convert.OnnxResult toOnnx(Path checkpoint, Path output, Job job) throws IOException {
        return Convert.run(Convert.ToOnnx.of(checkpoint, output), job);
    }

    static Convert.HuggingFaceResult toHuggingFace(Path onnx, Path output, Job job) throws IOException {
        return Convert.run(Convert.ToHuggingFace.of(onnx, output), job);
    }
    // end

    // dequantize
    static CheckpointOutcome dequantize(Path checkpoint, Path output, Job job) throws IOException {
        return Dequantize.run(Dequantize.Request.of(checkpoint, output), job);
    }
    // end

    // evaluate
    static double evaluate(Path reference, Path candidate, Path samples, Job job) throws IOException {
        var request = Evaluate.Request.of(reference, candidate, SampleSource.of(samples));
        return new Measures(Evaluate.run(request, job).comparison()).value("cosine-min");
    }
    // end

    // train
    static RunEnd train(Path model, Path config, Path run, Job job) throws IOException {
        return Train.run(Train.Request.of(model, config, run).withSteps(1000), job);
    }

    static RunEnd trainOn(Path run, Job job) throws IOException {
        return Train.run(Train.Request.ofRun(run).withSettings(List.of("steps=2000")), job);
    }
    // end

    // steps
    static double trainStepByStep(Path model, Path config) throws IOException {
        try (TrainingJob job = TrainingJob.open(model, config)) {
            for (long step = 1; step <= job.config().steps(); step++) {
                StepResult result = job.trainer().step(step);
                if (!Double.isFinite(result.loss())) {
                    return result.loss();
                }
            }
            return job.trainer().evaluate().total();
        }
    }
    // end

    // export
    static Export.Result export(Path run, Path output, Job job) throws IOException {
        Target onnxruntime = Target.named("onnxruntime").orElseThrow();
        return Export.run(Export.Request.of(run, output, onnxruntime), job);
    }

    static boolean prove(Path run, Path output, Job job) throws IOException {
        Target onnxruntime = Target.named("onnxruntime").orElseThrow();
        return Prove.run(Export.Request.of(run, output, onnxruntime), job).passed();
    }
    // end

    // look
    static boolean look(Path model, Path original, Job job) throws IOException {
        Inspect.Result facts = Inspect.run(model);
        boolean readable = Verifier.verify(model, VerifyOptions.defaults()).passed();
        boolean same = TensorComparison.compare(original, model, CompareOptions.defaults())
                .sameValues();
        return readable && !same && facts.withoutGraph() != null;
    }

    static boolean gradient(Path model, Path golden, Job job) throws IOException {
        return Gradient.run(Gradient.Request.of(model, golden), job).passed();
    }
    // end

    // quickstart
    static Optional<Quickstart.Result> quickstart(Path output, Path checkout, Quickstart.Watcher watcher)
            throws IOException {
        return Quickstart.run(Quickstart.Request.of(output, checkout), watcher, Job.defaults());
    }
    // end

    private Path samples(String name, int count, long seed) throws IOException {
        Path file = folder.resolve(name);
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(file)) {
            Shape shape = Shape.of(count, TOKENS);
            long size = shape.elementCount();
            long[] ids = new SplittableRandom(seed).longs(size, 1, WORDS).toArray();
            long[] mask = new long[ids.length];
            Arrays.fill(mask, 1);
            writer.add(Tensor.ofLongs(arena, "input_ids", shape, ids));
            writer.add(Tensor.ofLongs(arena, "attention_mask", shape, mask));
            writer.commit();
        }
        return file;
    }

    @Test
    void a_graph_is_calibrated_quantised_and_evaluated() throws IOException {
        Path samples = samples("samples.npz", 8, 3);
        Path output = folder.resolve("fp8.onnx");
        Quantize.GraphResult result = quantize(BERT, samples, output, JOB);
        assertEquals(8, result.samples());
        assertTrue(result.convertedBytes() < result.originalBytes());
        assertTrue(result.layers().stream().anyMatch(l -> l.kind().equals("Linear") && l.converted() == l.total()));
        assertTrue(evaluate(BERT, output, samples("held-out.npz", 8, 4), JOB) > 0.99);

        Path statistics = folder.resolve("bert.stats");
        assertEquals(8, calibrate(BERT, samples, statistics, JOB).samples());
        Path nearest = folder.resolve("nearest.onnx");
        Quantize.GraphResult again =
                Quantize.run(Quantize.GraphRequest.of(BERT, nearest).withStatistics(statistics), JOB);
        assertEquals(result.layers(), again.layers());
    }

    @Test
    void a_checkpoint_goes_to_a_layout_to_another_and_back() throws IOException {
        Path codes = folder.resolve("codes");
        CheckpointOutcome outcome = quantize(LLAMA, codes, JOB);
        assertEquals("compressed-tensors", outcome.target());
        assertTrue(look(codes, LLAMA, JOB));
        assertTrue(dequantize(codes, folder.resolve("floats"), JOB).target().startsWith("plain"));
        Path block = folder.resolve("fp8");
        Quantize.run(Quantize.CheckpointRequest.of(LLAMA, block, Recipes.MXFP8), JOB);
        assertEquals("modelopt", convert(block, folder.resolve("modelopt"), JOB).target());
    }

    @Test
    void a_checkpoint_becomes_a_graph_and_a_graph_a_checkpoint() throws IOException {
        Path onnx = folder.resolve("llama.onnx");
        assertTrue(toOnnx(LLAMA, onnx, JOB).nodes() > 0);
        assertEquals(
                "LlamaForCausalLM",
                toHuggingFace(onnx, folder.resolve("back"), JOB).architecture());
    }

    @Test
    void a_model_is_trained_exported_and_proved() throws IOException {
        samples("train.npz", 8, 5);
        Path config = Files.write(
                folder.resolve("train.yaml"),
                List.of(
                        "data: {train: train.npz}",
                        "loss: {type: mse, output: logits, distillation: {teacher: " + BERT + "}}",
                        "batch_size: 2",
                        "precision: {mode: fp8}",
                        "steps: 3"));
        Path run = folder.resolve("run");
        assertEquals(RunEnd.Reason.COMPLETED, train(BERT, config, run, JOB).reason());
        List<String> session = Files.readAllLines(run.resolve("run.json")).stream()
                .filter(l -> l.strip().startsWith("\""))
                .map(l -> l.substring(l.indexOf('"') + 1, l.indexOf('"', l.indexOf('"') + 1)))
                .filter(List.of("command", "model", "config_folder", "threads")::contains)
                .toList();
        assertEquals(List.of("command", "model", "config_folder", "threads"), session);
        Path output = folder.resolve("trained.onnx");
        assertEquals(3, export(run, output, JOB).step());
        assertTrue(prove(run, output, JOB));
    }

    /** Texts and their tokenizer: what the command line trains on, a program does. */
    @Test
    void a_language_model_is_trained_on_texts_step_by_step_and_in_a_folder() throws IOException {
        Path model = MODELS.resolve("tiny-lm/gpt2");
        Path texts = TESTDATA.resolve("text/eval.jsonl").toAbsolutePath();
        Path config = Files.write(
                folder.resolve("lm.yaml"),
                List.of(
                        "data: {train: '" + texts + "', eval: '" + texts + "', pack: true, sequence: 16}",
                        "loss: {type: causal-lm}",
                        "batch_size: 2",
                        "optimizer: {lr: 1.0e-2}",
                        "steps: 4"));
        double before;
        try (TrainingJob untrained = TrainingJob.open(model, config)) {
            before = untrained.trainer().evaluate().total();
        }
        double after = trainStepByStep(model, config);
        assertTrue(after < before, before + " to " + after);

        Path run = folder.resolve("lm");
        assertEquals(4, train(model, config, run, JOB).step());
        Train.Request on = Train.Request.ofRun(run).withSettings(List.of("steps=6"));
        assertEquals(6, Train.run(on, JOB).step());
        assertEquals(7, trainOnly(Train.Request.ofRun(run).withSteps(1).withSettings(List.of("steps=9"))));
    }

    private static long trainOnly(Train.Request request) throws IOException {
        return Train.run(request, JOB).step();
    }

    @Test
    void the_gradients_of_a_graph_are_the_expected_ones() throws IOException {
        Path model = MODELS.resolve("op-grad/add_both.onnx");
        assertTrue(gradient(model, MODELS.resolve("op-grad/add_both.safetensors"), JOB));
    }

    @Test
    void the_page_shows_this_code() throws IOException {
        String source = Files.readString(SOURCE);
        String page = Files.readString(PAGE);
        Matcher mark = Pattern.compile("\n    // (\\w+)\n(.*?)    // end\n", Pattern.DOTALL)
                .matcher(source);
        int shown = 0;
        while (mark.find()) {
            String code = mark.group(2).indent(-4);
            assertTrue(page.contains("\n\n" + code + "```\n"), mark.group(1) + ":\n" + code);
            shown++;
        }
        assertEquals(10, shown);
        assertEquals(shown, snippets().size());
    }

    /** The Java of the page, in order. */
    private static List<String> snippets() throws IOException {
        return PIECE.matcher(Files.readString(PAGE))
                .results()
                .map(m -> m.group(1))
                .toList();
    }

    /** {@code -Doctet.page=write} puts them there. */
    @Test
    void each_piece_of_the_page_shows_the_imports_it_needs() throws IOException {
        String page = Files.readString(PAGE);
        String expected = PIECE.matcher(page)
                .replaceAll(m -> Matcher.quoteReplacement("```java\n" + withImports(m.group(1)) + "```\n"));
        if ("write".equals(System.getProperty("octet.page"))) {
            Files.writeString(PAGE, expected);
        }
        assertEquals(expected, page);
    }

    private static String withImports(String piece) {
        String code = piece.lines()
                .dropWhile(l -> l.isEmpty() || l.startsWith("import "))
                .map(l -> l + "\n")
                .collect(Collectors.joining());
        Set<String> imports = new TreeSet<>();
        Matcher type = Pattern.compile("(?<![\\w.])[A-Z]\\w*").matcher(code);
        while (type.find()) {
            IMPORTED.stream().filter(i -> i.endsWith("." + type.group() + ";")).forEach(imports::add);
            if (Files.exists(SOURCES.resolve(type.group() + ".java"))) {
                imports.add("import dev.octet.pipeline." + type.group() + ";");
            }
        }
        return String.join("\n", imports) + "\n\n" + code;
    }

    @Test
    void each_piece_of_the_page_compiles_with_the_imports_it_shows() throws IOException {
        List<Path> sources = new ArrayList<>();
        for (String snippet : snippets()) {
            int end = snippet.indexOf("\n\n") + 2;
            String name = "Piece" + sources.size();
            sources.add(Files.writeString(
                    folder.resolve(name + ".java"),
                    snippet.substring(0, end) + "final class " + name + " {\n" + snippet.substring(end) + "}\n"));
        }
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StringWriter said = new StringWriter();
        try (StandardJavaFileManager files = compiler.getStandardFileManager(null, Locale.ROOT, null)) {
            boolean compiled = compiler.getTask(
                            said,
                            files,
                            null,
                            List.of("-proc:none", "-d", folder.toString()),
                            null,
                            files.getJavaFileObjectsFromPaths(sources))
                    .call();
            assertTrue(compiled, said.toString());
        }
    }
}
