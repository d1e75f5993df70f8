package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.onnx.OnnxWriteOptions;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.pipeline.run.RunFolder;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.commons.cli.Option;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** No verb replaces what it reads, and what is there goes only when something whole takes its place. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LostFilesTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    /**
     * Command lines that together have every option for a path of every verb. {@code <NAME>} is something that is read, {@code >NAME} something
     * that is written.
     */
    private static final List<String> COMMANDS = List.of(
            "quantize <b.onnx --calibration <cal.npz --tokenizer <tokenizer.json -o >out.onnx --report >out.html"
                    + " --force",
            "quantize <external.onnx --statistics <s.stats -o >out.onnx --report >out.html --force",
            "quantize <model --statistics <s.stats -o >out --force",
            "quantize <model/model.safetensors -o >out.safetensors --force",
            "quantize <b.onnx --data <cal.npz -o >out.onnx --force",
            "quantize <model -o >out --report >out.html --force",
            "evaluate <b.onnx <b.onnx --data <cal.npz --tokenizer <tokenizer.json --report >out.html --force",
            "evaluate <b.onnx <b.onnx --calibration <cal.npz --report >out.html --force",
            "sensitivity <b.onnx --data <cal.npz --tokenizer <tokenizer.json --report >out.html --force",
            "sensitivity <b.onnx --calibration <cal.npz --report >out.html --force",
            "verify <fp8 --against <model --report >out.html --force",
            "verify <adapter --for peft --base <llama --report >out.html --force",
            "dequantize <fp8 --keep-scales -o >out --force",
            "convert <fp8 --target modelopt -o >out --force",
            "convert <model --target onnx -o >out.onnx --force",
            "convert <model --target dcp -o >out --force",
            "convert <model --target deepspeed-universal -o >out --force",
            "convert <fp8 --into <b.onnx -o >out.onnx --force",
            "convert <b.onnx --target huggingface --config <model/config.json -o >out --force",
            "convert <b.onnx -o >out.safetensors --force",
            "merge <llama <adapter --like <llama --data <text.jsonl --tokenizer <tokenizer.json -o >out --force",
            "calibrate <b.onnx --data <cal.npz -o >out.stats --force",
            "calibrate <model --calibration <text.jsonl --tokenizer <tokenizer.json -o >out.stats --force",
            "calibrate --merge <s.stats <t.stats -o >out.stats --force",
            "diff <model <fp8 --report >out.html --force",
            "diff <model/model.safetensors <b.onnx --report >out.html --force",
            "train <b.onnx --config <train.yaml -o >out --report >out.html",
            "train <b.onnx --deepspeed <ds.json --accelerate <accelerate.yaml --hf-args <args.json --config"
                    + " <train.yaml -o >out --report >out.html",
            "train <run --resume --model <b.onnx",
            "config <ds.json --hf-args <args.json -o >out.yaml --force",
            "report <run -o >out.html --force",
            "doctor <run --baseline <run --tasks <text.jsonl --exported <fp8 --model <b.onnx --report >out.html"
                    + " --force",
            "doctor <b.onnx --config <train.yaml --data <cal.npz -o >out",
            "export <run --model <b.onnx --data <cal.npz --target onnx -o >out.onnx --force",
            "export <run --target fp8 -o >out --force",
            "export <run --target safetensors -o >out.safetensors --force");

    /** What is written in a folder that outputs are added to must be apart; the folder may hold what is read. */
    private static final Set<String> ADDING = Set.of("train", "doctor");

    @TempDir
    static Path made;

    @TempDir
    Path folder;

    @BeforeAll
    static void make() throws IOException {
        Files.copy(TinyBert.MODEL, made.resolve("b.onnx"));
        try (ModelFile file = ModelFile.open(TinyBert.MODEL)) {
            OnnxWriter.write(
                    file.model().graph().orElseThrow(),
                    made.resolve("external.onnx"),
                    new OnnxWriteOptions(OnnxWriteOptions.External.ALWAYS, 16, "weights.bin", 64));
        }
        copy(TESTDATA.resolve("checkpoints/llama-128-small"), made.resolve("model"));
        copy(TESTDATA.resolve("checkpoints/foreign/hf-fp8-block"), made.resolve("fp8"));
        copy(TESTDATA.resolve("models/tiny-hf/llama"), made.resolve("llama"));
        copy(TESTDATA.resolve("golden/merge/lora"), made.resolve("adapter"));
        copy(TESTDATA.resolve("tokenizer/words.json"), made.resolve("tokenizer.json"));
        Files.writeString(made.resolve("text.jsonl"), "{\"text\": \"a\"}\n");
        TinyBert.samples(made.resolve("cal.npz"), 8, 1);
        String calibrate = "calibrate " + made.resolve("b.onnx") + " --data " + made.resolve("cal.npz") + " -o ";
        done(calibrate + made.resolve("s.stats"));
        done(calibrate + made.resolve("t.stats --samples 3"));
        Files.writeString(made.resolve("train.yaml"), """
            data: {train: cal.npz}
            loss: {type: mse, output: logits, distillation: {teacher: b.onnx}}
            batch_size: 8
            steps: 1
            """);
        Files.writeString(made.resolve("ds.json"), "{\"train_batch_size\": \"auto\", \"bf16\": {\"enabled\": false}}");
        Files.writeString(made.resolve("accelerate.yaml"), "mixed_precision: bf16\n");
        Files.writeString(made.resolve("args.json"), "{\"per_device_train_batch_size\": 8}");
        done("train MADE/b.onnx --config MADE/train.yaml -o MADE/run".replace("MADE", made.toString()));
    }

    private static CommandLine done(String line) {
        CommandLine run = CommandLine.run(line.split(" "));
        assertEquals(ExitCode.OK, run.code(), line + "\n" + run.err());
        return run;
    }

    private static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> all = Files.walk(from)) {
            for (Path each : all.toList()) {
                Files.copy(each, to.resolve(from.relativize(each).toString()));
            }
        }
    }

    @BeforeEach
    void copyAll() throws IOException {
        copy(made, folder.resolve("in"));
    }

    private Path in(String name) {
        return folder.resolve("in").resolve(name);
    }

    /** All files with their digests, links with where they lead. */
    private static Map<String, String> files(Path folder) throws IOException {
        Map<String, String> files = new TreeMap<>();
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path each : all.toList()) {
                String name = folder.relativize(each).toString();
                if (Files.isSymbolicLink(each)) {
                    files.put(name, "-> " + Files.readSymbolicLink(each));
                } else if (Files.isRegularFile(each)) {
                    files.put(name, Sha256.of(each));
                }
            }
        }
        return files;
    }

    /** The words of a command line with paths in place of the names; {@code output} has another one. */
    private String[] words(String line, String output, Path instead, boolean force) {
        List<String> words = new ArrayList<>();
        for (String word : line.split(" ", -1)) {
            String name = word.substring(1);
            if (word.startsWith("<")) {
                words.add(in(name).toString());
            } else if (word.startsWith(">")) {
                words.add(
                        word.equals(output)
                                ? instead.toString()
                                : folder.resolve(name).toString());
            } else if (force || !word.equals("--force")) {
                words.add(word);
            }
        }
        return words.toArray(String[]::new);
    }

    private static List<String> words(String line, String sign) {
        return Arrays.stream(line.split(" ")).filter(w -> w.startsWith(sign)).toList();
    }

    /** Every way to name a file, and what holds it. */
    private List<Path> namesOf(Path input, boolean holding) throws IOException {
        Path parent = Objects.requireNonNull(input.getParent());
        List<Path> names = new ArrayList<>(List.of(input));
        Path links = Files.createDirectories(folder.resolve("links"));
        Path link = links.resolve("to-" + input.getFileName());
        if (!Files.exists(link)) {
            Files.createSymbolicLink(link, input);
        }
        names.add(link);
        names.add(parent.resolve("../" + parent.getFileName() + "/" + input.getFileName()));
        Path parentLink = links.resolve("folder");
        if (!Files.exists(parentLink)) {
            Files.createSymbolicLink(parentLink, folder.resolve("in"));
        }
        names.add(parentLink.resolve(folder.resolve("in").relativize(input)));
        if (Files.isRegularFile(input)) {
            Path hard = links.resolve("same-as-" + input.getFileName());
            if (!Files.exists(hard)) {
                Files.createLink(hard, input);
            }
            names.add(hard);
        } else {
            try (Stream<Path> inside = Files.walk(input)) {
                inside.filter(Files::isRegularFile).limit(4).forEach(names::add);
            }
        }
        if (holding) {
            names.add(parent);
        }
        return names;
    }

    static List<String> commands() {
        return COMMANDS;
    }

    @ParameterizedTest
    @MethodSource("commands")
    void what_is_read_is_never_written(String line) throws IOException {
        boolean adds = ADDING.contains(line.split(" ", -1)[0]);
        List<String> lost = new ArrayList<>();
        List<Path> inputs = new ArrayList<>();
        words(line, "<").forEach(w -> inputs.add(in(w.substring(1))));
        if (line.contains("external.onnx")) {
            inputs.add(in("weights.bin"));
        }
        if (line.contains("<run")) {
            inputs.add(in("run/checkpoints"));
        }
        List<Path> names = new ArrayList<>();
        for (Path input : inputs) {
            names.addAll(namesOf(input, !adds));
        }
        Map<String, String> before = files(folder);
        for (String output : words(line, ">")) {
            for (Path name : names) {
                for (boolean force : new boolean[] {true, false}) {
                    String[] words = words(line, output, name, force);
                    CommandLine run = CommandLine.run(words);
                    if (run.code() != ExitCode.USAGE) {
                        lost.add(run.code() + " " + String.join(" ", words) + "\n" + run.err());
                    }
                }
            }
        }
        assertEquals(before, files(folder));
        assertEquals(List.of(), lost);
    }

    @Test
    void every_option_for_a_path_is_in_these_command_lines() {
        Map<String, Set<String>> options = new TreeMap<>();
        Map<String, Set<String>> tried = new TreeMap<>();
        for (Command command : Octet.COMMANDS) {
            Set<String> own = new TreeSet<>();
            boolean writes = false;
            for (Option option : command.options()) {
                if (option instanceof PathOption path) {
                    own.add(path.getLongOpt());
                    writes |= path.way() == PathOption.Way.WRITTEN
                            || (path.way() == PathOption.Way.ADDED_TO
                                    && !command.operands().isEmpty());
                }
            }
            if (writes) {
                options.put(command.name(), own);
            }
        }
        for (String line : COMMANDS) {
            List<String> words = List.of(line.replace("-o ", "--output ").split(" "));
            for (int i = 0; i + 1 < words.size(); i++) {
                if (words.get(i).startsWith("--") && words.get(i + 1).matches("[<>].*")) {
                    tried.computeIfAbsent(words.getFirst(), _ -> new TreeSet<>())
                            .add(words.get(i).substring(2));
                }
            }
        }
        Objects.requireNonNull(tried.get("calibrate")).remove("merge");
        assertEquals(options, tried);
    }

    /** A run that goes on writes where it is read from. */
    @Test
    void a_run_does_not_go_on_from_a_model_that_lies_where_it_writes() throws IOException {
        Path run = in("run");
        Path inside = run.resolve("checkpoints/step-1/parameters.safetensors");
        Map<String, String> before = files(folder);
        CommandLine line =
                CommandLine.run("train", "--resume", run.toString(), "--model", inside.toString(), "--set", "steps=2");
        assertEquals(ExitCode.USAGE, line.code(), line.err());
        assertTrue(line.err().contains("parameters.safetensors"), line.err());
        assertEquals(before, files(folder));
    }

    @Test
    void what_a_run_was_started_with_is_not_written_over_by_its_export() throws IOException {
        done("train IN/model --config IN/text.yaml -o IN/hf"
                .replace("IN/text.yaml", textConfig().toString())
                .replace("IN", folder.resolve("in").toString()));
        Map<String, String> before = files(folder);
        for (String output : List.of("model", "model/model.safetensors", "model/config.json", "hf", "hf/run.json")) {
            for (String target : List.of("safetensors", "huggingface", "fp8")) {
                CommandLine run = CommandLine.run(
                        "export",
                        in("hf").toString(),
                        "-o",
                        in(output).toString(),
                        "--target",
                        target,
                        "--no-proof",
                        "--force");
                assertEquals(ExitCode.USAGE, run.code(), target + " to " + output + ": " + run.err());
                assertEquals(before, files(folder));
            }
        }
    }

    private Path textConfig() throws IOException {
        try (Arena arena = Arena.ofConfined();
                NpzWriter npz = NpzWriter.stored(in("tokens.npz"))) {
            Shape shape = Shape.of(2, 4);
            long[] tokens = {1, 2, 3, 4, 4, 3, 2, 1};
            npz.add(Tensor.ofLongs(arena, "input_ids", shape, tokens));
            npz.add(Tensor.ofLongs(arena, "labels", shape, tokens));
            npz.add(Tensor.ofLongs(arena, "attention_mask", shape, new long[] {1, 1, 1, 1, 1, 1, 1, 1}));
            npz.commit();
        }
        return Files.writeString(in("text.yaml"), """
            data: {train: tokens.npz}
            loss: {type: causal-lm}
            batch_size: 2
            steps: 1
            """);
    }

    @Test
    void a_run_is_not_written_over_its_data_and_configuration() throws IOException {
        Path run = Files.createDirectory(folder.resolve("new"));
        Files.copy(in("cal.npz"), run.resolve("metrics.jsonl"));
        Path config = Files.writeString(
                in("other.yaml"),
                Files.readString(in("train.yaml"))
                        .replace("cal.npz", run.resolve("metrics.jsonl").toString()));
        Map<String, String> before = files(run);
        CommandLine line =
                CommandLine.run("train", in("b.onnx").toString(), "--config", config.toString(), "-o", run.toString());
        assertEquals(ExitCode.USAGE, line.code(), line.err());
        assertTrue(line.err().contains("data.train"), line.err());
        assertEquals(before, files(run));
        Files.delete(run.resolve("metrics.jsonl"));
        Files.writeString(run.resolve("config.yaml"), "mine");
        line = CommandLine.run(
                "train", in("b.onnx").toString(), "--config", in("train.yaml").toString(), "-o", run.toString());
        assertEquals(ExitCode.USAGE, line.code(), line.err());
        assertEquals("mine", Files.readString(run.resolve("config.yaml")));
    }

    @Test
    void a_run_may_lie_beside_its_configuration_and_data_and_writes_nothing_unforeseen() throws IOException {
        Path run = Files.createDirectory(folder.resolve("new"));
        Files.copy(in("cal.npz"), run.resolve("cal.npz"));
        Files.copy(in("b.onnx"), run.resolve("b.onnx"));
        Files.copy(in("train.yaml"), run.resolve("config.yaml"));
        done("train RUN/b.onnx --config RUN/config.yaml -o RUN".replace("RUN", run.toString()));
        Set<String> written = new TreeSet<>();
        try (Stream<Path> files = Files.list(run)) {
            files.forEach(f -> written.add(f.getFileName().toString()));
        }
        written.removeAll(List.of("cal.npz", "b.onnx"));
        written.removeAll(RunFolder.ENTRIES);
        assertEquals(Set.of(), written);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "quantize IN/b.onnx --recipe fp8-weight-only -o OUT.onnx --report OUT.onnx",
                "quantize IN/b.onnx --recipe fp8-weight-only -o OUT.onnx --report OUT.onnx --force",
                "quantize IN/b.onnx --recipe fp8-weight-only -o OUT.onnx --report LINK/out.onnx --force"
            })
    void two_outputs_of_one_command_are_two_files(String line) throws IOException {
        Files.createSymbolicLink(folder.resolve("link"), folder);
        Map<String, String> before = files(folder);
        CommandLine run = CommandLine.run(
                placed(line.replace("LINK", folder.resolve("link").toString())).split(" "));
        assertEquals(ExitCode.USAGE, run.code(), run.err());
        assertTrue(run.err().contains("--output") && run.err().contains("--report"), run.err());
        assertEquals(before, files(folder));
    }

    /** A good command line and one that fails where the first one wrote; what is broken is made by {@link #breakAll}. */
    private static final Map<String, String> FAILING = new TreeMap<>(Map.ofEntries(
            Map.entry(
                    "quantize IN/b.onnx --recipe fp8-weight-only -o OUT.onnx --report OUT.html",
                    "quantize IN/broken.onnx --recipe fp8-weight-only -o OUT.onnx --report OUT.html"),
            Map.entry(
                    "quantize IN/b.onnx --statistics IN/s.stats -o OUT.onnx",
                    "quantize IN/b.onnx --statistics IN/broken.stats -o OUT.onnx"),
            Map.entry("quantize IN/model -o OUT", "quantize IN/nan -o OUT"),
            Map.entry("quantize IN/model -o OUT.safetensors", "quantize IN/nan -o OUT.safetensors"),
            Map.entry("dequantize IN/fp8 --keep-scales -o OUT", "dequantize IN/nan -o OUT"),
            Map.entry(
                    "convert IN/fp8 --target modelopt -o OUT", "convert IN/nan --target fp8 --recipe fp8-block -o OUT"),
            Map.entry("merge IN/llama IN/adapter -o OUT", "merge IN/nan IN/adapter -o OUT"),
            Map.entry(
                    "merge IN/llama/model.safetensors IN/adapter -o OUT.safetensors", "merge IN/llama IN/none -o OUT"),
            Map.entry("convert IN/model --target onnx -o OUT.onnx", "convert IN/short --target onnx -o OUT.onnx"),
            Map.entry(
                    "convert IN/gpt2.onnx --target huggingface -o OUT",
                    "convert IN/broken.onnx --target huggingface -o OUT"),
            Map.entry("convert IN/b.onnx -o OUT.safetensors", "convert IN/broken.onnx -o OUT.safetensors"),
            Map.entry(
                    "calibrate IN/b.onnx --data IN/cal.npz -o OUT.stats",
                    "calibrate IN/b.onnx --data IN/broken.npz -o OUT.stats"),
            Map.entry(
                    "calibrate IN/b.onnx --data IN/cal.npz --samples 2 -o OUT.stats",
                    "calibrate IN/b.onnx --data IN/outside.npz -o OUT.stats"),
            Map.entry(
                    "calibrate --merge IN/s.stats IN/t.stats -o OUT.stats",
                    "calibrate --merge IN/s.stats IN/broken.stats -o OUT.stats"),
            Map.entry("diff IN/model IN/fp8 --report OUT.html", "diff IN/model IN/short --report OUT.html"),
            Map.entry(
                    "export IN/run --target onnx --no-proof -o OUT.onnx",
                    "export IN/damaged --target onnx --no-proof -o OUT.onnx"),
            Map.entry(
                    "export IN/run --target compressed-tensors --no-proof -o OUT",
                    "export IN/run --target fp8 --recipe nvfp4 --no-proof -o OUT"),
            Map.entry(
                    "export IN/run --target safetensors --no-proof -o OUT.safetensors",
                    "export IN/damaged --target safetensors --no-proof -o OUT.safetensors")));

    private void breakAll() throws IOException {
        for (String name : List.of("b.onnx", "s.stats", "cal.npz")) {
            byte[] bytes = Files.readAllBytes(in(name));
            String broken = "broken" + name.substring(name.lastIndexOf('.'));
            Files.write(in(broken), Arrays.copyOf(bytes, bytes.length * 2 / 3));
        }
        Files.copy(TESTDATA.resolve("models/tiny-onnx/gpt2_eager_script17.onnx"), in("gpt2.onnx"));
        try (Arena arena = Arena.ofConfined();
                NpzWriter npz = NpzWriter.stored(in("outside.npz"))) {
            long[] ids = new long[8 * 12];
            ids[90] = 1 << 20; // no such token: found when the model runs
            long[] mask = new long[8 * 12];
            Arrays.fill(mask, 1);
            npz.add(Tensor.ofLongs(arena, "input_ids", Shape.of(8, 12), ids));
            npz.add(Tensor.ofLongs(arena, "attention_mask", Shape.of(8, 12), mask));
            npz.commit();
        }
        copy(in("model"), in("short"));
        Path weights = in("short/model.safetensors");
        Files.write(weights, Arrays.copyOf(Files.readAllBytes(weights), 5000));
        copy(in("model"), in("nan"));
        try (ModelFile file = ModelFile.open(in("model"));
                Arena arena = Arena.ofConfined()) {
            Map<String, Tensor> tensors = new HashMap<>(file.model().tensors());
            String name = "model.layers.0.mlp.down_proj.weight";
            Tensor old = Objects.requireNonNull(tensors.get(name));
            Tensor nan = Tensor.allocate(arena, new TensorSpec(name, DType.F32, old.shape()));
            nan.bytes().set(ValueLayout.JAVA_FLOAT_UNALIGNED, 0, Float.NaN);
            tensors.put(name, nan);
            SafetensorsWriter.write(in("nan/model.safetensors"), tensors, Map.of("format", "pt"));
        }
        copy(in("adapter"), in("none"));
        Files.delete(in("none/adapter_model.safetensors"));
        copy(in("run"), in("damaged"));
        Path parameters = in("damaged/checkpoints/step-1/parameters.safetensors");
        byte[] bytes = Files.readAllBytes(parameters);
        bytes[bytes.length - 1] ^= 1;
        Files.write(parameters, bytes);
    }

    static Set<String> failing() {
        return FAILING.keySet();
    }

    @ParameterizedTest
    @MethodSource("failing")
    void a_run_that_fails_leaves_what_was_there(String good) throws IOException {
        breakAll();
        done(placed(good));
        Map<String, String> before = files(folder);
        String line = placed(Objects.requireNonNull(FAILING.get(good))) + " --force";
        CommandLine run = CommandLine.run(line.split(" "));
        assertNotEquals(ExitCode.OK, run.code(), line);
        assertNotEquals(ExitCode.BUG, run.code(), run.err());
        assertEquals(before, files(folder), line + "\n" + run.err());
        done(placed(good) + " --force");
        assertEquals(before.keySet(), files(folder).keySet());
    }

    private String placed(String line) {
        return line.replace("IN", folder.resolve("in").toString())
                .replace("OUT", folder.resolve("out").toString());
    }
}
