package dev.octet.bench.gpu;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Predicts training steps on an H200 without a GPU, for {@code bench/gpu/predict}: prints them beside measured ones, and writes what the first hour on a GPU is
 * compared with.
 */
public final class Predict {
    private static final List<String> MODELS = List.of("vit-huge", "gpt2");
    private static final List<String> OTHERS = List.of("bert", "llama");
    private static final List<String> PRECISIONS = List.of("bf16", "fp8");

    private Predict() {}

    /** Its arguments: a result of {@code bench/run-gpu}, and the file to write. */
    public static void main(String[] args) throws IOException {
        if (args.length != 2) {
            System.err.println("usage: Predict MEASURED.json PREDICTED.json");
            System.exit(2);
        }
        JsonNode measured = new ObjectMapper().readTree(Path.of(args[0]).toFile());
        List<Prediction> all = all(MODELS);
        List<Prediction> shown = new ArrayList<>(all);
        shown.addAll(all(OTHERS));
        print(shown, measured.get("results"), System.out);
        printByCudnn(shown, System.out);
        Files.writeString(Path.of(args[1]), json(all));
    }

    private static List<Prediction> all(List<String> models) throws IOException {
        List<Prediction> all = new ArrayList<>();
        for (String model : models) {
            for (String precision : PRECISIONS) {
                all.add(predict(model, precision));
            }
        }
        return all;
    }

    static Prediction predict(String model, String precision) throws IOException {
        return predict(model, precision, new RecordingGpu(false));
    }

    /** With attention by cuDNN, at published rates. */
    static Prediction predictByCudnn(String model, String precision) throws IOException {
        return predict(model, precision, new RecordingGpu(true));
    }

    private static Prediction predict(String model, String precision, RecordingGpu gpu) throws IOException {
        Path folder = Files.createTempDirectory("octet-predict");
        try {
            return Prediction.of(
                    RecordedStep.of(model, precision, Subject.of(model).batch(), folder, gpu));
        } finally {
            delete(folder);
        }
    }

    private static void delete(Path folder) throws IOException {
        Files.walkFileTree(folder, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Files.delete(file);
                return FileVisitResult.CONTINUE;
            }
        });
        Files.delete(folder);
    }

    /** A table of its own: it rests on rates that others published, and nothing of it goes into the file. */
    private static void printByCudnn(List<Prediction> all, PrintStream out) throws IOException {
        out.println("With octet.cuda.attention=cudnn, its attention at published rates (Assumptions.cudnnTeraflops):");
        for (Prediction p : all) {
            String[] words = p.step().name().split(" ", 2);
            Prediction other = predictByCudnn(words[0], words[1]);
            out.printf(
                    Locale.ROOT,
                    "%-14s %7.1f ms in place of %.1f, %.1f GB in place of %.1f%n",
                    p.step().name(),
                    other.millis(),
                    p.millis(),
                    other.step().peakBytes() / 1e9,
                    p.step().peakBytes() / 1e9);
        }
    }

    private static void print(List<Prediction> all, JsonNode measured, PrintStream out) {
        for (Prediction p : all) {
            out.println(p.text(measured.at("/step " + p.step().name() + "/octet/0")));
        }
    }

    /** The file that the first hour reads. */
    static String json(List<Prediction> all) throws IOException {
        Map<String, Object> steps = new LinkedHashMap<>();
        all.forEach(p -> steps.put(p.step().name(), p.json()));
        Map<String, Object> json = new LinkedHashMap<>();
        json.put(
                "source",
                "bench/gpu/predict: a cost model over recorded steps; its assumptions are in"
                        + " bench/src/main/java/dev/octet/bench/gpu/Assumptions.java");
        json.put("gpu", RecordingGpu.H200.name());
        json.put("steps", steps);
        json.put(
                "limits",
                Map.of(
                        "copyGigabytes", Assumptions.COPY_GIGABYTES,
                        "bf16Teraflops", Assumptions.LIMIT_BF16_TERAFLOPS,
                        "fp8Teraflops", Assumptions.LIMIT_FP8_TERAFLOPS));
        ObjectMapper mapper = new ObjectMapper()
                .enable(SerializationFeature.INDENT_OUTPUT)
                .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);
        return mapper.writeValueAsString(json).replace("\r\n", "\n") + "\n";
    }
}
