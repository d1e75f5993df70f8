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
 * Quantises a checkpoint in several ways and measures the perplexity of each, in one process: {@code TransformRows MODEL DATA WORK}.
 * Standard input has a row for each, with tabs: the folder that is quantised (the model, or it with its weights transformed), statistics of it or
 * {@code -}, recipe, inputs of a group or {@code -}, {@code nearest} or {@code gptq}, scale search, transform or {@code none}. Standard output answers with the row, the perplexity, that of the model, the signal-to-noise ratio of the logits in dB, bytes and seconds; or with the row, {@code refused} and why.
 */
public final class TransformRows {
    private TransformRows() {}

    /** Reads rows until there are no more. */
    public static void main(String[] args) throws IOException {
        Path model = Path.of(args[0]);
        SampleSource data = SampleSource.of(Path.of(args[1]));
        Path made = Path.of(args[2]);
        BufferedReader rows = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String row = rows.readLine(); row != null; row = rows.readLine()) {
            String answer;
            try {
                answer = measured(model, request(row.split("\t", -1), made), data);
            } catch (OctetException e) {
                answer = "refused\t" + e.what();
            }
            System.out.println(row + "\t" + answer);
        }
    }

    private static Quantize.CheckpointRequest request(String[] row, Path made) {
        Recipe recipe =
                Objects.requireNonNull(Recipes.byName(Recipes.CHECKPOINT).get(row[2]), row[2]);
        if (!row[3].equals("-")) {
            recipe = recipe.withGroups(new Granularity.PerGroup(-1, Integer.parseInt(row[3])));
        }
        Quantize.WeightRounds usual =
                row[4].equals("gptq") ? Quantize.WeightRounds.GPTQ : Quantize.WeightRounds.NEAREST;
        ScaleSearch search = ScaleSearch.valueOf(row[5].toUpperCase(Locale.ROOT).replace('-', '_'));
        Quantize.CheckpointRequest request =
                Quantize.CheckpointRequest.of(Path.of(row[0]), made, recipe).withRounding(usual.with(search));
        if (!row[6].equals("none")) {
            request = request.withTransforms(List.of(Transform.parse(row[6])));
        }
        return row[1].equals("-") ? request : request.withStatistics(Path.of(row[1]));
    }

    private static String measured(Path model, Quantize.CheckpointRequest request, SampleSource data)
            throws IOException {
        Job job = Job.defaults().overwriting();
        long start = System.nanoTime();
        Quantize.run(request, job);
        double seconds = (System.nanoTime() - start) / 1e9;
        ModelComparison compared = Evaluate.run(
                        Evaluate.Request.of(model, request.output(), data)
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
