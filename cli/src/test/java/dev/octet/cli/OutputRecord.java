package dev.octet.cli;

import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Records what Octet writes: every verb over the models in {@code testdata}, every recipe for every target, training in every mode. Two
 * records, made before and after a change of the code, show whether the change keeps every output byte: {@code diff -r before after}.
 *
 * <p>In the record, {@code NAME.txt} holds the command line, its exit code and what it printed, with durations, rates and memory masked,
 * and the SHA-256 of every file it wrote; text files it wrote are kept as they are, masked alike.
 */
final class OutputRecord {
    private static final List<String> FP8_ONNX = List.of("fp8", "fp8-per-tensor", "fp8-weight-only");
    private static final List<String> ONNX_TARGETS = List.of("onnxruntime", "tensorrt");
    private static final List<String> CHECKPOINT_TARGETS = List.of("compressed-tensors", "fp8", "modelopt");
    private static final List<String> CHECKPOINT_RECIPES =
            List.of("fp8-dynamic", "fp8", "fp8-block", "mxfp8", "nvfp4", "int8", "int8-asymmetric");
    private static final List<String> TRAINING_RECIPES =
            List.of("deployed", "delayed", "current", "block", "mxfp8", "tensorwise", "rowwise", "rowwise_with_gw_hp");
    private static final Pattern MEASURED = Pattern.compile("\\d[\\d,.]*"
        + " ?(ms|s|min|h|us|µs|ns|[kMG]i?B|[kMG]i?B/s|GFLOP/s|samples/s|tokens/s|steps/s|MB/s|GB/s)\\b|(?<=(seconds|_ms|_s|Seconds|per_second|memory|bytes_peak|_bytes|time|created|wall_time|_at|speed)\"?"
        + " ?: ?)\"?[\\d.eE:TZ-]+\"?");

    private final Path record;
    private final Path work;
    private final Path testdata;
    private final @Nullable String only;
    private int cases;

    private OutputRecord(Path record, Path work, Path testdata, @Nullable String only) {
        this.record = record;
        this.work = work;
        this.testdata = testdata;
        this.only = only;
    }

    /** {@code RECORD WORK TESTDATA [PART]}: all parts, or {@code help}, {@code inspect}, {@code onnx}, {@code checkpoints}, {@code train} or {@code gradient}. */
    public static void main(String[] args) throws IOException {
        OutputRecord recorder = new OutputRecord(
                Path.of(args[0]), Path.of(args[1]), Path.of(args[2]), args.length > 3 ? args[3] : null);
        Files.createDirectories(recorder.record);
        recorder.help();
        recorder.inspect();
        recorder.onnx();
        recorder.checkpoints();
        recorder.train();
        recorder.gradient();
        System.out.println(recorder.cases + " command lines recorded in " + args[0]);
    }

    private boolean wanted(String part) {
        return only == null || only.equals(part);
    }

    private void help() throws IOException {
        if (!wanted("help")) {
            return;
        }
        record("help", "--help");
        for (Command command : Octet.COMMANDS) {
            record("help-" + command.name(), command.name(), "--help");
        }
        record("rules", "verify", "--rules");
        record("rules-json", "verify", "--rules", "--json");
    }

    private void inspect() throws IOException {
        if (!wanted("inspect")) {
            return;
        }
        for (Path model : models()) {
            record("inspect-" + name(model), "inspect", model.toString(), "--parameters");
            record("inspect-json-" + name(model), "inspect", model.toString(), "--json");
            record("verify-" + name(model), "verify", model.toString(), "--deep");
            record("verify-json-" + name(model), "verify", model.toString(), "--json", "--tp", "1,2");
        }
    }

    private void onnx() throws IOException {
        if (!wanted("onnx")) {
            return;
        }
        for (Path model : onnxModels()) {
            String name = name(model);
            Path data = inputs(model);
            record(
                    "calibrate-" + name,
                    "calibrate",
                    model.toString(),
                    "-o",
                    out(name + ".stats"),
                    "--data",
                    data.toString());
            for (String recipe : FP8_ONNX) {
                for (String target : ONNX_TARGETS) {
                    String id = name + "-" + recipe + "-" + target;
                    List<String> words = new ArrayList<>(
                            List.of("quantize", model.toString(), "--recipe", recipe, "--target", target));
                    if (!recipe.equals("fp8-weight-only")) {
                        words.addAll(List.of("--calibration", data.toString()));
                    }
                    record("plan-" + id, with(words, "--dry-run", "-o", out(id + ".plan.onnx")));
                    record("quantize-" + id, with(words, "-o", out(id + ".onnx")));
                    record("verify-" + id, "verify", out(id + ".onnx"), "--json");
                }
            }
            String fp8 = out(name + "-fp8-onnxruntime.onnx");
            record(
                    "nearest-" + name,
                    "quantize",
                    model.toString(),
                    "--statistics",
                    out(name + ".stats"),
                    "--calibrator",
                    "mse",
                    "--json",
                    "-o",
                    out(name + ".mse.onnx"));
            record("evaluate-" + name, "evaluate", model.toString(), fp8, "--data", data.toString(), "--json");
            record("diff-" + name, "diff", model.toString(), fp8, "--json");
            record(
                    "huggingface-" + name,
                    "convert",
                    model.toString(),
                    "--target",
                    "huggingface",
                    "-o",
                    out(name + "-hf"));
        }
    }

    private void checkpoints() throws IOException {
        if (!wanted("checkpoints")) {
            return;
        }
        for (Path model : plainCheckpoints()) {
            String name = name(model);
            for (String recipe : CHECKPOINT_RECIPES) {
                for (String target : CHECKPOINT_TARGETS) {
                    String id = name + "-" + recipe + "-" + target;
                    List<String> words = List.of("quantize", model.toString(), "--recipe", recipe, "--target", target);
                    record("plan-" + id, with(words, "--dry-run", "--json", "-o", out(id + ".plan")));
                    record("quantize-" + id, with(words, "-o", out(id)));
                    record("verify-" + id, "verify", out(id), "--deep", "--json");
                    record("dequantize-" + id, "dequantize", out(id), "-o", out(id + ".back"));
                    record("diff-" + id, "diff", model.toString(), out(id), "--json");
                }
            }
            record("onnx21-" + name, "convert", model.toString(), "--target", "onnx", "-o", out(name + ".21.onnx"));
            record(
                    "onnx23-" + name,
                    "convert",
                    model.toString(),
                    "--target",
                    "onnx",
                    "--opset",
                    "23",
                    "-o",
                    out(name + ".23.onnx"));
            record(
                    "scales-" + name,
                    "quantize",
                    model.toString(),
                    "--recipe",
                    "fp8-block",
                    "--target",
                    "fp8",
                    "--scale-format",
                    "ue8m0",
                    "-o",
                    out(name + ".ue8m0"));
            record(
                    "bf16scales-" + name,
                    "quantize",
                    model.toString(),
                    "--scale-type",
                    "bf16",
                    "--keep",
                    "0",
                    "-o",
                    out(name + ".bf16s"));
        }
        for (Path model : foreignCheckpoints()) {
            String name = name(model);
            record("dequantize-" + name, "dequantize", model.toString(), "--keep-scales", "-o", out(name + ".f"));
            record("requantize-" + name, "quantize", out(name + ".f"), "--keep-scales", "-o", out(name + ".again"));
            for (String target : CHECKPOINT_TARGETS) {
                record(
                        "convert-" + name + "-" + target,
                        "convert",
                        model.toString(),
                        "--target",
                        target,
                        "-o",
                        out(name + "-" + target));
                for (String recipe : List.of("fp8-dynamic", "fp8-block", "mxfp8")) {
                    String id = name + "-" + target + "-" + recipe;
                    record(
                            "convert-" + id,
                            "convert",
                            model.toString(),
                            "--target",
                            target,
                            "--recipe",
                            recipe,
                            "-o",
                            out(id));
                }
            }
        }
    }

    private void train() throws IOException {
        if (!wanted("train")) {
            return;
        }
        List<String> modes = new ArrayList<>(List.of("{mode: fp32}", "{mode: bf16}", "{mode: fp16}"));
        TRAINING_RECIPES.forEach(r -> modes.add("{mode: fp8, recipe: " + r + "}"));
        modes.add("{mode: fp8, recipe: delayed, base: fp32, exempt_last: true, high_precision: [wgrad]}");
        modes.add("{mode: fp8, recipe: current, fp8_format: E4M3, layers: [{match: '.*0.*', fp8: false}]}");
        ByteBuffer tokens = ByteBuffer.allocate(2 * 512).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < 512; i++) {
            tokens.putShort((short) ((7 * i + 3 * (i / 8)) % 96));
        }
        Files.createDirectories(work);
        Files.write(work.resolve("tokens.bin"), tokens.array());
        for (String model :
                List.of("tiny-onnx/gpt2_eager_script17.onnx", "tiny-onnx/llama_eager_dynamo23.onnx", "tiny-hf/qwen2")) {
            for (String mode : modes) {
                for (String optimizer : mode.contains("fp32") || mode.contains("delayed")
                        ? List.of("adamw", "sgd")
                        : List.of("adamw")) {
                    String id = model.replaceAll("[/._]", "-") + "-" + mode.replaceAll("[^a-z0-9A-Z]+", "") + "-"
                            + optimizer;
                    Path config = work.resolve(id + ".yaml");
                    Files.writeString(config, """
                        data: {train: tokens.bin, eval: tokens.bin, sequence: 16}
                        loss: {type: causal-lm}
                        batch_size: 4
                        steps: 5
                        eval_every: 5
                        clip_grad_norm: 1.0
                        optimizer: {type: %s, lr: 0.01}
                        precision: %s
                        """.formatted(optimizer, mode));
                    String path = testdata.resolve("models").resolve(model).toString();
                    record(
                            "dry-" + id,
                            "train",
                            path,
                            "--config",
                            config.toString(),
                            "-o",
                            out(id),
                            "--dry-run",
                            "--json");
                    record("train-" + id, "train", path, "--config", config.toString(), "-o", out(id), "--steps", "3");
                    record(
                            "resume-" + id,
                            "train",
                            path,
                            "--config",
                            config.toString(),
                            "-o",
                            out(id),
                            "--resume",
                            "--json");
                    for (String target : List.of(
                            "onnxruntime",
                            "tensorrt",
                            "onnx",
                            "safetensors",
                            "compressed-tensors",
                            "fp8",
                            "modelopt",
                            "transformer-engine",
                            "huggingface")) {
                        if (optimizer.equals("adamw")) {
                            String suffix =
                                    List.of("onnxruntime", "tensorrt", "onnx").contains(target)
                                            ? ".onnx"
                                            : target.equals("safetensors") || target.equals("transformer-engine")
                                                    ? ".safetensors"
                                                    : "";
                            record(
                                    "export-" + id + "-" + target,
                                    "export",
                                    out(id),
                                    "--target",
                                    target,
                                    "--samples",
                                    "4",
                                    "--json",
                                    "-o",
                                    out(id + "-" + target + suffix));
                        }
                    }
                }
            }
        }
    }

    private void gradient() throws IOException {
        if (!wanted("gradient")) {
            return;
        }
        for (Path model : list(testdata.resolve("models/op-grad"), ".onnx")) {
            String golden = model.toString().replace(".onnx", ".safetensors");
            record("gradient-" + name(model), "gradient", model.toString(), "--golden", golden, "--program", "--json");
        }
    }

    private List<Path> models() throws IOException {
        List<Path> models = new ArrayList<>(onnxModels());
        models.addAll(plainCheckpoints());
        models.addAll(foreignCheckpoints());
        models.addAll(list(testdata.resolve("hostile/safetensors"), ".safetensors"));
        return models;
    }

    private List<Path> onnxModels() throws IOException {
        return list(testdata.resolve("models/tiny-onnx"), ".onnx");
    }

    private List<Path> plainCheckpoints() throws IOException {
        List<Path> folders = new ArrayList<>(folders(testdata.resolve("checkpoints")));
        folders.removeIf(f -> f.endsWith("foreign"));
        folders.addAll(folders(testdata.resolve("models/tiny-hf")));
        return folders;
    }

    private List<Path> foreignCheckpoints() throws IOException {
        return folders(testdata.resolve("checkpoints/foreign"));
    }

    private static List<Path> folders(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.filter(Files::isDirectory).sorted().toList();
        }
    }

    private static List<Path> list(Path folder, String ending) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.filter(p -> p.toString().endsWith(ending)).sorted().toList();
        }
    }

    private String name(Path model) {
        return testdata.relativize(model).toString().replaceAll("[/.]", "-");
    }

    private String out(String name) {
        return work.resolve(name).toString();
    }

    private static String[] with(List<String> words, String... more) {
        return Stream.concat(words.stream(), Arrays.stream(more)).toArray(String[]::new);
    }

    /** Eight samples of whatever the model reads. */
    private Path inputs(Path model) throws IOException {
        Files.createDirectories(work);
        Path file = work.resolve(name(model) + ".npz");
        boolean image = model.getFileName().toString().startsWith("vit");
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(file)) {
            if (image) {
                float[] pixels = new float[8 * 3 * 16 * 16];
                for (int i = 0; i < pixels.length; i++) {
                    pixels[i] = (i * 37 % 101 - 50) / 25f;
                }
                writer.add(Tensor.ofFloats(arena, "pixel_values", Shape.of(8, 3, 16, 16), pixels));
            } else {
                long[] ids = new long[8 * 9];
                long[] mask = new long[ids.length];
                for (int i = 0; i < ids.length; i++) {
                    ids[i] = (i * 31L + i / 9) % 96;
                    mask[i] = 1;
                }
                writer.add(Tensor.ofLongs(arena, "input_ids", Shape.of(8, 9), ids));
                writer.add(Tensor.ofLongs(arena, "attention_mask", Shape.of(8, 9), mask));
            }
            writer.commit();
        }
        return file;
    }

    private void record(String name, String... words) throws IOException {
        cases++;
        List<Path> before = files();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        ExitCode code;
        try (PrintStream o = new PrintStream(out, true, StandardCharsets.UTF_8);
                PrintStream e = new PrintStream(err, true, StandardCharsets.UTF_8)) {
            List<String> all = new ArrayList<>(List.of(words));
            if (!all.contains("--help") && !all.contains("--rules")) {
                all.add("--quiet");
            }
            code = Octet.run(all, new Screen(o, e, false, 0));
        }
        StringBuilder text = new StringBuilder("octet " + mask(String.join(" ", words)) + "\nexit " + code + "\n");
        text.append(mask(out.toString(StandardCharsets.UTF_8)))
                .append("--- standard error\n")
                .append(mask(err.toString(StandardCharsets.UTF_8)))
                .append("--- files\n");
        List<Path> written = new ArrayList<>(files());
        written.removeAll(before);
        for (Path file : written) {
            String path = work.relativize(file).toString();
            String ending = path.substring(path.lastIndexOf('.') + 1);
            if (List.of("json", "jsonl", "html", "yaml").contains(ending)) {
                Path kept = record.resolve("files").resolve(path);
                Files.createDirectories(kept.getParent());
                Files.writeString(kept, mask(Files.readString(file)));
                text.append("text     ");
            } else if (path.contains("tfevents") || path.endsWith(".log")) {
                text.append("unstable ");
            } else {
                text.append(sha256(file)).append(' ');
            }
            text.append(path.replaceAll("tfevents.*", "tfevents")).append('\n');
        }
        Files.writeString(record.resolve(name + ".txt"), text);
    }

    private String mask(String text) {
        return MEASURED.matcher(text.replace(testdata.toString(), "testdata").replace(work.toString(), "out"))
                .replaceAll("#");
    }

    private List<Path> files() throws IOException {
        if (!Files.exists(work)) {
            return List.of();
        }
        try (Stream<Path> all = Files.walk(work)) {
            return all.filter(Files::isRegularFile)
                    .sorted(Comparator.naturalOrder())
                    .toList();
        }
    }

    private static String sha256(Path file) throws IOException {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            return HexFormat.of().formatHex(digest.digest(Files.readAllBytes(file)));
        } catch (NoSuchAlgorithmException e) {
            throw new UncheckedIOException(new IOException(e));
        }
    }
}
