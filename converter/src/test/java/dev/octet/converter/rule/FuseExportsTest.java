package dev.octet.converter.rule;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.converter.TinyModels;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The rules on real exports, with and without the import passes before. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FuseExportsTest {
    /** What the architecture has, by the layers its configuration names. */
    private static Map<String, Integer> expected(String name) throws IOException {
        JsonNode config = TinyModels.config(name);
        int layers =
                config.path("num_hidden_layers").asInt(config.path("n_layer").asInt());
        return new TreeMap<>(
                switch (TinyModels.architecture(name)) {
                    // layer: query, key, value, attention output, intermediate, output; head: transform, decoder
                    case "bert" ->
                        Map.of(
                                "Linear", 6 * layers + 2,
                                // embeddings, transform; layer: attention output, output
                                "LayerNormalization", 2 * layers + 2,
                                "Gelu", layers + 1);
                    // layer: c_attn, c_proj, c_fc, c_proj; head: lm_head
                    case "gpt2" ->
                        Map.of(
                                "Linear", 4 * layers + 1,
                                // layer: ln_1, ln_2; ln_f
                                "LayerNormalization", 2 * layers + 1,
                                "Gelu", layers);
                    // layer: q, k, v, o, gate, up, down; head: lm_head
                    case "llama" ->
                        Map.of(
                                "Linear", 7 * layers + 1,
                                // layer: before attention, after it; last norm
                                "RMSNormalization", 2 * layers + 1);
                    // layer: query, key, value, attention output, intermediate, output; head: classifier
                    case "vit" ->
                        Map.of(
                                "Linear", 6 * layers + 1,
                                // layer: before and after; last norm
                                "LayerNormalization", 2 * layers + 1,
                                "Gelu", layers);
                    default -> throw new IllegalArgumentException(name);
                });
    }

    @ParameterizedTest
    @MethodSource("dev.octet.converter.TinyModels#names")
    void every_export_has_the_layers_of_its_architecture(String name) throws IOException {
        try (ModelFile file = TinyModels.open(name)) {
            for (GraphModel model : TinyModels.spellings(file)) {
                FusePatterns.Result result = new FusePatterns().fuse(model);
                assertEquals(expected(name), new TreeMap<>(result.fused()));
                List<String> refusals =
                        result.refusals().stream().map(Outcome.Refused::reason).toList();
                assertEquals(
                        TinyModels.architecture(name).equals("vit")
                                ? List.of("Conv with kernel = stride (patch embedding), kept")
                                : List.of(),
                        refusals);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("dev.octet.converter.TinyModels#names")
    void a_second_run_changes_nothing(String name) throws IOException {
        try (ModelFile file = TinyModels.open(name)) {
            for (GraphModel model : TinyModels.spellings(file)) {
                var once = new FusePatterns().fuse(model).model();
                assertEquals(Map.of(), new FusePatterns().fuse(once).fused());
            }
        }
    }

    /** TorchScript names nodes, dynamo writes metadata: one regular expression must address both. */
    @Test
    void the_exports_of_one_model_have_the_same_names_whatever_the_exporter() throws IOException {
        for (String architecture : List.of("bert", "gpt2", "llama", "vit")) {
            Set<Set<String>> names = new HashSet<>();
            for (String name : TinyModels.names()) {
                if (TinyModels.architecture(name).equals(architecture)) {
                    try (ModelFile file = TinyModels.open(name)) {
                        TinyModels.spellings(file).forEach(model -> names.add(named(model)));
                    }
                }
            }
            assertEquals(1, names.size(), () -> names.toString());
        }
    }

    private static Set<String> named(GraphModel model) {
        Set<String> names = new HashSet<>();
        for (Node n : new FusePatterns().fuse(model).model().graph().nodes()) {
            if (n.domain().equals(Node.OCTET_DOMAIN) && !n.opType().equals("Gelu")) {
                names.add(n.name());
            }
        }
        return names;
    }
}
