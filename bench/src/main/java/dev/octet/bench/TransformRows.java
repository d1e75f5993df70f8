package dev.octet.bench;

import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.evaluate.PerplexityComparison;
import dev.octet.formats.error.OctetException;
import dev.octet.pipeline.Evaluate;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.SampleSource;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.scale.ScaleSearch;
import dev.octet.quant.transform.Transform;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * Quantises a checkpoint in several ways and measures the perplexity of each, in one process: {@code TransformRows MODEL STATISTICS DATA WORK}.
 * Standard input has a row for each, with tabs: recipe, inputs of a group or {@code -}, {@code nearest} or {@code gptq}, scale search, transform or
 * {@code none}. Standard output answers with the row, the perplexity, that of the model, the signal-to-noise ratio of the logits in dB, bytes and seconds; or with the row, {@code refused} and why.
 */
public final class TransformRows {
    private TransformRows() {}

    /** Reads rows until there are no more. */
    public static void main(String[] args) throws IOException {
        Path model = Path.of(args[0]);
        Path statistics = Path.of(args[1]);
        SampleSource data = SampleSource.of(Path.of(args[2]));
        Path made = Path.of(args[3]);
        BufferedReader rows = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String row = rows.readLine(); row != null; row = rows.readLine()) {
            String answer;
            try {
                answer = measured(request(row.split("\t", -1), model, statistics, made), data);
            } catch (OctetException e) {
                answer = "refused\t" + e.what();
            }
            System.out.println(row + "\t" + answer);
        }
    }

    private static Quantize.CheckpointRequest request(String[] row, Path model, Path statistics, Path made) {
        Recipe recipe =
                Objects.requireNonNull(Recipes.byName(Recipes.CHECKPOINT).get(row[0]), row[0]);
        if (!row[1].equals("-")) {
            recipe = recipe.withGroups(new Granularity.PerGroup(-1, Integer.parseInt(row[1])));
        }
        Quantize.WeightRounds usual =
                row[2].equals("gptq") ? Quantize.WeightRounds.GPTQ : Quantize.WeightRounds.NEAREST;
        ScaleSearch search = ScaleSearch.valueOf(row[3].toUpperCase(Locale.ROOT).replace('-', '_'));
        Quantize.CheckpointRequest request =
                Quantize.CheckpointRequest.of(model, made, recipe).withRounding(usual.with(search));
        boolean moments = row[2].equals("gptq") || search == ScaleSearch.HESSIAN;
        if (row[4].equals("none")) {
            return moments ? request.withStatistics(statistics) : request;
        }
        Transform transform = Transform.parse(row[4]);
        request = request.withTransforms(List.of(transform));
        return moments || transform.needsStatistics() ? request.withStatistics(statistics) : request;
    }

    private static String measured(Quantize.CheckpointRequest request, SampleSource data) throws IOException {
        Job job = Job.defaults().overwriting();
        long start = System.nanoTime();
        Quantize.run(request, job);
        double seconds = (System.nanoTime() - start) / 1e9;
        ModelComparison compared = Evaluate.run(
                        Evaluate.Request.of(request.model(), request.output(), data)
                                .without(Evaluate.Part.LAYERS)
                                .with(Evaluate.Part.PERPLEXITY),
                        job)
                .comparison();
        PerplexityComparison perplexity = Objects.requireNonNull(compared.perplexity());
        return perplexity.candidate().perplexity() + "\t"
                + perplexity.reference().perplexity() + "\t"
                + compared.outputs().getFirst().sqnrDb() + "\t" + bytes(request.output()) + "\t" + seconds;
    }

    private static long bytes(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(f -> f.toString().endsWith(".safetensors"))
                    .mapToLong(f -> f.toFile().length())
                    .sum();
        }
    }
}
