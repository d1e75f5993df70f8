package dev.octet.bench;

import dev.octet.converter.Converter;
import dev.octet.converter.data.Batch;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.TextDataset;
import dev.octet.converter.data.TextOptions;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.ModelFile;
import dev.octet.formats.file.Sha256;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Calibration against plain inference over the same samples, in turn in one process: {@code MODEL.onnx TEXTS.jsonl tokenizer.json
 * [SAMPLES] [ROUNDS]}. Both sides include opening the session; both read the text, tokenise it and run ONNX Runtime on all cores.
 *
 * <p>A plain main instead of a JMH benchmark: one round takes seconds, and the ratio of neighbours is what counts.
 */
public final class CalibrationBenchmark {
    private CalibrationBenchmark() {}

    /** Prints seconds of each round, the median of their ratios, and the peak resident memory of the process (Linux). */
    public static void main(String[] args) throws IOException {
        if (args.length < 3) {
            throw new IllegalArgumentException("usage: MODEL.onnx TEXTS.jsonl tokenizer.json [SAMPLES] [ROUNDS]");
        }
        Path model = Path.of(args[0]);
        int samples = args.length > 3 ? Integer.parseInt(args[3]) : 256;
        int rounds = args.length > 4 ? Integer.parseInt(args[4]) : 7;
        List<Double> ratios = new ArrayList<>();
        try (ModelFile file = ModelFile.open(model);
                Converter converter = Converter.of(file.model());
                Dataset texts = TextDataset.open(
                        Path.of(args[1]), Path.of(args[2]), InputSpec.of(converter.source()), TextOptions.defaults())) {
            Plan plan = converter.plan(Recipes.FP8_PER_CHANNEL, List.of());
            String digest = Sha256.of(model);
            for (int round = 0; round <= rounds; round++) {
                double plain = plain(model, texts, samples);
                long start = System.nanoTime();
                converter.calibrate(plan, texts.slice(0, samples), digest, CalibrationOptions.defaults());
                double calibrated = (System.nanoTime() - start) / 1e9;
                System.out.printf(
                        "%s plain %.3f s, calibrate %.3f s, ratio %.3f%n",
                        round == 0 ? "warm-up" : "round " + round, plain, calibrated, calibrated / plain);
                if (round > 0) {
                    ratios.add(calibrated / plain);
                }
            }
        }
        Collections.sort(ratios);
        System.out.printf("median ratio %.3f over %d rounds of %d samples%n", ratios.get(rounds / 2), rounds, samples);
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM")) {
                System.out.println(
                        "peak resident " + line.substring("VmHWM:".length()).strip());
            }
        }
    }

    /** Seconds to open the model and run the samples, reading its output as a user would. */
    private static double plain(Path model, Dataset texts, int samples) throws IOException {
        int size = CalibrationOptions.DEFAULT_BATCH;
        long start = System.nanoTime();
        try (OnnxRuntimeSession session = OnnxRuntime.open(model, SessionSettings.defaults())) {
            for (int first = 0; first < samples; first += size) {
                Batch batch = texts.batch(first, Math.min(size, samples - first));
                try (OnnxRuntimeSession.Outputs outputs = session.run(batch)) {
                    outputs.names().forEach(outputs::read);
                }
            }
        }
        return (System.nanoTime() - start) / 1e9;
    }
}
