import dev.langchain4j.data.segment.TextSegment;
import dev.langchain4j.model.embedding.onnx.OnnxEmbeddingModel;
import dev.langchain4j.model.embedding.onnx.PoolingMode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/**
 * How well models retrieve, as a user of langchain4j has them: {@code DATA_NOUN TOKENIZER POOLING MODEL...}. The query is the gloss of a noun
 * in WordNet, the documents are the lemmas of all chosen nouns; right is the gloss's own. Prints for each model the share of queries whose
 * first answer is right (R@1), the mean reciprocal rank (MRR), and milliseconds per query. The nouns are those of testdata/wordnet/glosses.jsonl that
 * were not calibrated on: see testdata/make/wordnet_glosses.py.
 */
final class Retrieval {
    private static final int CALIBRATED = 256;
    private static final int COUNT = 400;
    private static final int SHORTEST = 20;

    private Retrieval() {}

    private record Noun(String order, String lemma, String gloss) {}

    public static void main(String[] args) throws IOException, NoSuchAlgorithmException {
        List<Noun> nouns = nouns(Path.of(args[0]));
        for (String model : List.of(args).subList(3, args.length)) {
            var embeddings = new OnnxEmbeddingModel(Path.of(model), Path.of(args[1]), PoolingMode.valueOf(args[2].toUpperCase(Locale.ROOT)));
            float[][] documents = new float[nouns.size()][];
            float[][] queries = new float[nouns.size()][];
            for (int i = 0; i < documents.length; i++) {
                documents[i] = embeddings.embed(TextSegment.from(nouns.get(i).lemma())).content().vector();
            }
            long start = System.nanoTime();
            for (int i = 0; i < queries.length; i++) {
                queries[i] = embeddings.embed(nouns.get(i).gloss()).content().vector();
            }
            double millis = (System.nanoTime() - start) / 1e6 / queries.length;
            int first = 0;
            double reciprocal = 0;
            for (int i = 0; i < queries.length; i++) {
                int rank = 1;
                double right = dot(queries[i], documents[i]);
                for (int j = 0; j < documents.length; j++) {
                    rank += j != i && dot(queries[i], documents[j]) > right ? 1 : 0;
                }
                first += rank == 1 ? 1 : 0;
                reciprocal += 1.0 / rank;
            }
            System.out.printf(
                    Locale.ROOT,
                    "{\"model\": \"%s\", \"recall_at_1\": %.4f, \"mrr\": %.4f, \"ms_per_query\": %.2f}%n",
                    Path.of(model).getFileName(),
                    first / (double) queries.length,
                    reciprocal / queries.length,
                    millis);
        }
    }

    private static double dot(float[] a, float[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            sum += a[i] * b[i];
        }
        return sum;
    }

    private static List<Noun> nouns(Path data) throws IOException, NoSuchAlgorithmException {
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        List<Noun> all = new ArrayList<>();
        for (String line : Files.readAllLines(data)) {
            if (!line.startsWith("  ")) {
                String[] words = line.split(" ");
                String order = HexFormat.of().formatHex(sha.digest(words[0].getBytes(StandardCharsets.US_ASCII)));
                all.add(new Noun(order, words[4].replace('_', ' '), line.substring(line.indexOf('|') + 1).strip()));
            }
        }
        all.sort(Comparator.comparing(Noun::order));
        Set<String> seen = new HashSet<>();
        Set<String> lemmas = new HashSet<>();
        List<Noun> chosen = new ArrayList<>();
        for (Noun noun : all) {
            if (noun.gloss().length() < SHORTEST || !seen.add(noun.gloss()) || seen.size() <= CALIBRATED) {
                continue;
            }
            if (lemmas.add(noun.lemma())) {
                chosen.add(noun);
            }
            if (chosen.size() == COUNT) {
                break;
            }
        }
        return chosen;
    }
}
