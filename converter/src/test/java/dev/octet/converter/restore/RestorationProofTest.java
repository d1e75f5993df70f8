package dev.octet.converter.restore;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.TinyModels;
import dev.octet.converter.hf.HfImporter;
import dev.octet.converter.lower.Lowering;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The proof against faults planted in the checkpoint, whose right tensors are those of {@code testdata/models/tiny-hf}. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class RestorationProofTest {
    private static final Path CHECKPOINTS = Path.of(System.getProperty("octet.testdata"), "models", "tiny-hf");

    @Test
    void the_right_tensors_pass() throws IOException {
        RestorationProof proof = proof("bert", "", "");
        assertEquals(2, proof.runs());
        assertTrue(proof.error() < 1e-5, proof.toString());
    }

    @ParameterizedTest
    @CsvSource({
        "bert,bert.encoder.layer.1.attention.self.value.weight",
        "gpt2,transformer.h.0.attn.c_proj.weight",
        "llama,model.layers.1.self_attn.o_proj.weight",
        "vit,vit.encoder.layer.1.attention.output.dense.weight",
    })
    void a_square_weight_turned_over_is_refused(String architecture, String name) {
        refused(architecture, name, name);
    }

    @ParameterizedTest
    @CsvSource({
        "bert,bert.encoder.layer.0.attention.self.value.weight,bert.encoder.layer.1.attention.self.value.weight",
        "llama,model.layers.0.mlp.gate_proj.weight,model.layers.0.mlp.up_proj.weight",
        "llama,model.layers.0.self_attn.k_proj.weight,model.layers.0.self_attn.v_proj.weight",
        "gpt2,transformer.h.0.mlp.c_fc.bias,transformer.h.1.mlp.c_fc.bias",
    })
    void two_tensors_exchanged_are_refused(String architecture, String name, String other) {
        refused(architecture, name, other);
    }

    private static void refused(String architecture, String name, String other) {
        UnsupportedModelException refused =
                assertThrows(UnsupportedModelException.class, () -> proof(architecture, name, other));
        assertTrue(refused.what().contains("logits"), refused.what());
    }

    /** Of an export and its checkpoint with one tensor transposed, or two exchanged; none for empty names. */
    private static RestorationProof proof(String architecture, String name, String other) throws IOException {
        ObjectNode config = ModelConfig.read(CHECKPOINTS.resolve(architecture)).orElseThrow();
        try (Arena arena = Arena.ofShared();
                ModelFile file = TinyModels.open(architecture + "_eager_script17");
                ModelFile checkpoint =
                        ModelFile.open(CHECKPOINTS.resolve(architecture).resolve("model.safetensors"))) {
            Map<String, Tensor> tensors = new LinkedHashMap<>(checkpoint.model().tensors());
            if (!name.isEmpty()) {
                Tensor a = checkpoint.model().tensor(name);
                Tensor b = checkpoint.model().tensor(other);
                tensors.put(name, name.equals(other) ? a.transposed(arena) : b.withName(name));
                tensors.computeIfPresent(other, (n, t) -> name.equals(n) ? t : a.withName(n));
            }
            GraphModel twin = HfImporter.of(config, tensors, architecture).model();
            return RestorationProof.of(
                    "test",
                    TinyModels.graph(file),
                    Lowering.standard(twin, 21, new PassLog()),
                    Map.of("logits", "logits"),
                    config);
        }
    }
}
