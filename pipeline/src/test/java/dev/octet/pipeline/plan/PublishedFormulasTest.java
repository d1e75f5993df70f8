package dev.octet.pipeline.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.hf.TransformerSizes;
import dev.octet.pipeline.plan.Accelerator.ProductType;
import dev.octet.trainer.collective.Mesh;
import java.io.IOException;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Formulas beside those of Megatron-LM, EleutherAI's cookbook and the paper of ZeRO, on Llama 3, GPT-3, Mixtral and others ({@code make/plan_formulas.py}). */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PublishedFormulasTest {
    private interface Check {
        void row(String model, PlanData.Setting setting, String quantity, double value) throws IOException;
    }

    private static void each(String formula, int least, Check check) throws IOException {
        int count = 0;
        for (String[] row : PlanData.rows("formulas.csv")) {
            if (row[0].equals(formula)) {
                check.row(row[1], PlanData.Setting.of(row[2]), row[3], Double.parseDouble(row[4]));
                count++;
            }
        }
        assertTrue(count >= least, count + " rows of " + formula);
    }

    /** What Megatron's count leaves out: biases, learned positions, routers. */
    private static long leftOut(TransformerSizes s) {
        boolean gpt = s.norms().vectors() == 2;
        long biases = gpt ? 5L * s.hidden() + s.mlp().inner() : 0;
        long router = s.mlp().experts() > 1 ? (long) s.hidden() * s.mlp().experts() : 0;
        return s.layers() * (biases + router) + (long) s.embedding().positions() * s.hidden();
    }

    @Test
    void parameters_are_those_that_megatron_counts_and_the_biases_positions_and_routers_it_leaves_out()
            throws IOException {
        each("megatron", 30, (model, _, quantity, value) -> {
            if (quantity.equals("parameters")) {
                TransformerSizes s = PlanData.sizes(model);
                assertEquals(value, (double) (s.parameters() - leftOut(s)), model);
            }
        });
    }

    @Test
    void published_names_of_models_say_how_many_parameters_they_have() throws IOException {
        // tables of the models' papers, rounded as there
        assertEquals(8.03, PlanData.sizes("llama3-8b").parameters() / 1e9, 0.005);
        assertEquals(70.6, PlanData.sizes("llama3-70b").parameters() / 1e9, 0.05);
        assertEquals(405.9, PlanData.sizes("llama3-405b").parameters() / 1e9, 0.05);
        assertEquals(46.7, PlanData.sizes("mixtral-8x7b").parameters() / 1e9, 0.05);
        assertEquals(12.9, PlanData.sizes("mixtral-8x7b").activeParameters() / 1e9, 0.05);
        assertEquals(175, PlanData.sizes("gpt3-175b").parameters() / 1e9, 0.5);
    }

    @Test
    void bytes_of_weights_gradients_and_moments_on_the_fullest_shard_are_megatrons() throws IOException {
        each("megatron", 30, (model, s, quantity, value) -> {
            if (quantity.equals("state")) {
                DeviceBytes b = first(model, s);
                double state = (double) b.weights() + b.masters() + b.gradients() + b.moments();
                TransformerSizes sizes = PlanData.sizes(model);
                long positions = (long) sizes.embedding().positions() * sizes.hidden();
                double more = (positions + (double) (leftOut(sizes) - positions) / s.get("pipeline")) / s.get("tensor");
                double each = s.get("zero") == 1 ? 6 + 12.0 / s.get("data") : 18;
                // the last norm lies on the last stage here, and on all of them there
                assertEquals(value + more * each, state, 1e-5 * value, model + " " + s);
            }
        });
    }

    @Test
    void activations_of_gpt_on_the_first_stage_are_megatrons() throws IOException {
        each("megatron", 30, (model, s, quantity, value) -> {
            if (quantity.equals("activations") && PlanData.sizes(model).mlp().matrices() == 2) {
                assertEquals(value, (double) first(model, s).activations(), 1e-9 * value, model + " " + s);
            }
        });
    }

    @Test
    void a_layer_keeps_what_backward_of_its_operators_reads_tensor_by_tensor() throws IOException {
        each(
                "saved",
                8,
                (model, _, _, value) -> assertEquals(
                        value, TransformerActivations.layer(PlanData.sizes(model), ProductType.BF16), model));
    }

    @Test
    void a_gpt_layer_keeps_34_bytes_of_each_hidden_element() throws IOException {
        TransformerSizes s = PlanData.sizes("gpt3-175b");
        assertEquals(34.0 * s.hidden(), TransformerActivations.layer(s, ProductType.BF16));
    }

    @Test
    void operations_are_those_of_the_cookbook_part_by_part() throws IOException {
        each("cookbook", 60, (model, setting, quantity, value) -> {
            if (quantity.equals("bytes")) {
                return;
            }
            TransformerSizes s = PlanData.sizes(model);
            int length = setting.get("length");
            double h = s.hidden();
            double ours = switch (quantity) {
                case "attention" -> 3 * TransformerFlops.attention(s, length);
                case "embedding" -> 3 * TransformerFlops.head(s);
                case "qkv" ->
                    6
                            * s.layers()
                            * h
                            * (s.heads().queryElements() + 2 * s.heads().keyElements());
                case "projection" -> 6 * s.layers() * h * s.heads().queryElements();
                default -> value;
            };
            assertEquals(value, ours, 1e-12 * value, model + " " + quantity);
        });
    }

    @Test
    void operations_of_a_gpt_step_are_the_cookbooks_sum() throws IOException {
        for (String model : new String[] {"gpt-22b", "gpt3-175b", "mt-nlg-530b", "gpt-1t"}) {
            double[] sum = new double[1];
            each("cookbook", 60, (m, setting, quantity, value) -> {
                if (m.equals(model) && setting.get("length") == 2048) {
                    sum[0] += value;
                }
            });
            assertEquals(sum[0], TransformerFlops.training(PlanData.sizes(model), 2048), 1e-12 * sum[0], model);
        }
    }

    @Test
    void operations_are_6_n_d_and_attention_but_for_tables_that_are_looked_up() throws IOException {
        TransformerSizes s = PlanData.sizes("llama3-8b");
        double looked = 6.0 * s.embeddingParameters();
        double norms = 6.0 * ((2L * s.layers() + 1) * s.hidden());
        assertEquals(
                TransformerFlops.sixN(s) - looked - norms + 3 * TransformerFlops.attention(s, 8192),
                TransformerFlops.training(s, 8192),
                1.0);
    }

    @Test
    void bytes_of_a_parameter_are_those_of_the_stages_of_zero() throws IOException {
        each("cookbook", 16, (_, s, quantity, value) -> {
            if (quantity.equals("bytes")) {
                assertEquals(value, each(s, ParameterBytes.BF16_ADAM), 1e-6 * value, "cookbook " + s);
            }
        });
        each(
                "zero",
                16,
                (_, s, _, value) ->
                        assertEquals(value, each(s, new ParameterBytes(2, 4, 2, 8)), 1e-6 * value, "zero " + s));
    }

    private static double each(PlanData.Setting s, ParameterBytes bytes) throws IOException {
        Workload model = new DecoderWorkload(PlanData.sizes("llama3-8b"));
        PlannedStep work = new PlannedStep(1024, 128, ProductType.BF16, bytes);
        Mesh mesh = new Mesh(s.get("data"), 1, 1, 1, s.get("zero"));
        Hardware hardware = Hardware.parse(mesh.size() + "xH100", "test");
        DeviceBytes b = new Estimate(model, work, hardware).bytes(mesh, 0, 1, false);
        return (double) (b.weights() + b.masters() + b.gradients() + b.moments()) / model.parameters();
    }

    private static DeviceBytes first(String model, PlanData.Setting s) throws IOException {
        Mesh mesh = new Mesh(s.get("data"), s.get("tensor"), s.get("pipeline"), s.get("chunks"), s.get("zero"));
        PlannedStep work = new PlannedStep(
                (long) s.get("count") * s.get("data") * s.get("micro"),
                s.get("length"),
                ProductType.BF16,
                ParameterBytes.BF16_ADAM);
        Hardware hardware = Hardware.parse(mesh.size() + "xA100", "test");
        return new Estimate(new DecoderWorkload(PlanData.sizes(model)), work, hardware)
                .bytes(mesh, 0, s.get("micro"), false);
    }
}
