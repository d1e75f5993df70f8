package dev.octet.bench;

import dev.octet.formats.error.OctetException;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Train;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * Trains a model several times on ranks that one process plays: {@code RankRows MODEL CONFIG WORK}. Standard input has a row for each run, with tabs: the name of its folder in
 * {@code WORK}, the number of ranks, keys with other values separated by spaces. Standard output answers with the name and why the run ended, when its {@code metrics.jsonl} is
 * there; or with the name, {@code refused} and why.
 */
public final class RankRows {
    private RankRows() {}

    /** Reads rows until there are no more. */
    public static void main(String[] args) throws IOException {
        BufferedReader rows = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String row = rows.readLine(); row != null; row = rows.readLine()) {
            String[] words = row.split("\t", -1);
            Train.Request request = Train.Request.of(
                            Path.of(args[0]), Path.of(args[1]), Path.of(args[2]).resolve(words[0]))
                    .withSettings(List.of(words[2].split(" ", -1)))
                    .withSimulatedRanks(Integer.parseInt(words[1]));
            String answer;
            try {
                answer = Train.run(request, Job.defaults()).reason().name().toLowerCase(Locale.ROOT);
            } catch (OctetException e) {
                answer = "refused\t" + e.what();
            }
            System.out.println(words[0] + "\t" + answer);
        }
    }
}
