package dev.octet.trainer.dialect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Accelerate's YAML: what it becomes here, next to what Accelerate's own launcher and recipes do with the same files. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class AccelerateTest {
    private static final Path FILES = Path.of(System.getProperty("octet.testdata"), "golden/dialect/accelerate");

    private static Reading golden(String name) throws IOException {
        return Dialect.ACCELERATE.read(YamlFile.read(FILES.resolve(name)), Given.NOTHING);
    }

    private static Reading yaml(String text) {
        return Dialect.ACCELERATE.read(YamlFile.parse(text, "accelerate.yaml"), Given.NOTHING);
    }

    private static JsonNode launched(String name) throws IOException {
        return new ObjectMapper()
                .readTree(Files.readString(FILES.resolve("launched.json")))
                .path(name);
    }

    private static Map<String, String> settings(Reading reading) {
        Map<String, String> all = new TreeMap<>();
        reading.settings().forEach(s -> all.put(s.key(), s.value()));
        return all;
    }

    private static Reading.Row row(Reading reading, String key) {
        return reading.rows().stream()
                .filter(r -> r.key().equals(key))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void answers_of_the_questionnaire_count_here_and_accelerates_own_recipe_does_not_have_them() throws IOException {
        Reading reading = golden("te-questionnaire.yaml");
        assertEquals("32", settings(reading).get("precision.amax_history_len"));
        assertEquals(
                1024,
                launched("te-questionnaire.yaml")
                        .path("recipe")
                        .path("amax_history_len")
                        .asInt());
        assertTrue(launched("te-questionnaire.yaml")
                .path("sent")
                .path("amax_history_len")
                .isMissingNode());
        assertTrue(row(reading, "fp8_config.amax_history_length").reason().contains("with it 1024 counts"));
        assertEquals("2", settings(reading).get("precision.margin"));
        assertEquals(
                2, launched("te-questionnaire.yaml").path("sent").path("margin").asInt());
        assertEquals("[wgrad]", settings(reading).get("precision.high_precision"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "distributed_type: DEEPSPEED, deepspeed_config: {zero_stage: 1} | 1",
                "distributed_type: DEEPSPEED, deepspeed_config: {zero_stage: 3} | 3",
                "distributed_type: DEEPSPEED, deepspeed_config: {zero_stage: 0} |",
                "distributed_type: FSDP, fsdp_config: {fsdp_sharding_strategy: FULL_SHARD} | 3",
                "distributed_type: FSDP, fsdp_config: {fsdp_sharding_strategy: 2} | 2",
                "distributed_type: FSDP, fsdp_config: {sharding_strategy: NO_SHARD} |",
                "distributed_type: FSDP, fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true} | 3",
                "distributed_type: MULTI_GPU, fsdp_config: {fsdp_sharding_strategy: FULL_SHARD} |"
            })
    void what_processes_share_out_is_the_stage_here(String yaml, @Nullable String zero) {
        Reading reading = yaml("{" + yaml + "}");
        assertEquals(zero, settings(reading).get("distributed.zero"));
        assertEquals(List.of(), reading.problems());
    }

    @Test
    void the_launchers_own_spelling_counts_in_both() throws IOException {
        Reading reading = golden("te-launcher.yaml");
        JsonNode sent = launched("te-launcher.yaml").path("sent");
        assertEquals(sent.path("amax_history_len").asText(), settings(reading).get("precision.amax_history_len"));
        assertEquals(sent.path("fp8_format").asText(), settings(reading).get("precision.fp8_format"));
        assertEquals(sent.path("amax_compute_algo").asText(), settings(reading).get("precision.amax_compute_algo"));
        assertEquals("", row(reading, "fp8_config.amax_history_len").reason());
    }

    @Test
    void most_recent_counts_here_and_never_reaches_transformer_engine_through_accelerate() throws IOException {
        Reading reading = golden("te-most-recent.yaml");
        assertEquals("most_recent", settings(reading).get("precision.amax_compute_algo"));
        JsonNode launched = launched("te-most-recent.yaml");
        assertEquals(
                "most_recent", launched.path("recipe").path("amax_compute_algo").asText());
        assertTrue(launched.path("sent").path("amax_compute_algo").isMissingNode());
        assertTrue(row(reading, "fp8_config.amax_compute_algo").reason().contains("max counts"));
    }

    @Test
    void three_truths_as_text_are_read_here_and_make_accelerate_fail() throws IOException {
        assertEquals("[wgrad]", settings(golden("te-text-override.yaml")).get("precision.high_precision"));
        assertTrue(launched("te-text-override.yaml").path("error").asText().contains("invalid truth value"));
        assertEquals(
                "(",
                launched("te-text-override.yaml")
                        .path("environment")
                        .path("ACCELERATE_FP8_OVERRIDE_FPROP")
                        .asText());
    }

    @Test
    void the_level_that_the_questionnaire_writes_counts_here_and_is_o2_in_accelerate() throws IOException {
        assertEquals("O1", settings(golden("msamp-questionnaire.yaml")).get("precision.opt_level"));
        assertEquals(
                "O2",
                launched("msamp-questionnaire.yaml")
                        .path("recipe")
                        .path("opt_level")
                        .asText());
        assertEquals("msamp", settings(golden("msamp-launcher.yaml")).get("precision.mode"));
        assertEquals(
                "O1",
                launched("msamp-launcher.yaml").path("recipe").path("opt_level").asText());
        assertEquals("O2", settings(golden("deepspeed-msamp.yaml")).get("precision.opt_level"));
    }

    @Test
    void mxfp8_takes_its_own_format_and_no_history() throws IOException {
        assertEquals("mxfp8", settings(golden("te-mxfp8.yaml")).get("precision.recipe"));
        assertEquals("E4M3", settings(golden("te-mxfp8-amax.yaml")).get("precision.fp8_format"));
        assertEquals(1, golden("te-mxfp8-amax.yaml").problems().size());
        assertEquals(
                32,
                launched("te-mxfp8-amax.yaml")
                        .path("sent")
                        .path("amax_history_len")
                        .asInt());
    }

    @Test
    void torchao_is_tensorwise_with_accelerates_filter() throws IOException {
        Map<String, String> ao = settings(golden("ao.yaml"));
        assertEquals(
                List.of("tensorwise", "multiple_of_16", "true", "true"),
                List.of(
                        ao.get("precision.recipe"),
                        ao.get("precision.filter"),
                        ao.get("precision.exempt_first"),
                        ao.get("precision.exempt_last")));
    }

    @Test
    void what_the_launcher_exports_for_other_modes_is_what_a_run_gets() throws IOException {
        for (String name : List.of(
                "fp16-old.yaml", "fsdp.yaml", "megatron.yaml", "deepspeed.yaml", "fp8-config-under-bf16.yaml")) {
            assertEquals(
                    launched(name)
                            .path("environment")
                            .path("ACCELERATE_MIXED_PRECISION")
                            .asText(),
                    settings(golden(name)).get("precision.mode"),
                    name);
            assertTrue(golden(name).isHonoured(), name);
        }
        Map<String, String> deepspeed = settings(golden("deepspeed.yaml"));
        JsonNode environment = launched("deepspeed.yaml").path("environment");
        assertEquals(
                environment.path("ACCELERATE_GRADIENT_ACCUMULATION_STEPS").asText(),
                deepspeed.get("gradient_accumulation"));
        assertEquals(environment.path("ACCELERATE_GRADIENT_CLIPPING").asText(), deepspeed.get("clip_grad_norm"));
        assertEquals("host", deepspeed.get("offload.states"));
        assertEquals("all", deepspeed.get("precision.autocast"));
        assertEquals("0.7", settings(golden("megatron.yaml")).get("clip_grad_norm"));
        assertEquals("all", settings(golden("fsdp.yaml")).get("gradient_checkpointing.layers"));
    }

    @Test
    void processes_with_a_batch_each_are_micro_batches_of_one() {
        String text = "distributed_type: MULTI_GPU\nnum_processes: 4\nmixed_precision: 'no'\n";
        assertEquals("4", settings(yaml(text)).get("gradient_accumulation"));
        String deepspeed =
                "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config: {gradient_accumulation_steps: 3}\n";
        assertEquals("12", settings(yaml(deepspeed)).get("gradient_accumulation"));
        assertEquals(
                null,
                settings(yaml("distributed_type: 'NO'\nnum_processes: 4\n")).get("gradient_accumulation"));
    }

    @Test
    void a_deepspeed_json_that_is_named_is_read_with_all_it_asks_for(@TempDir Path folder) throws IOException {
        Files.writeString(
                folder.resolve("ds.json"),
                "{\"train_micro_batch_size_per_gpu\": 2, \"bf16\": {\"enabled\": true}, \"zero_optimization\":"
                        + " {\"stage\": 2}}");
        Path file = folder.resolve("accelerate.yaml");
        String text = "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\n";
        Files.writeString(file, text);
        Reading reading = Dialect.ACCELERATE.read(YamlFile.read(file), Given.NOTHING);
        assertEquals(List.of(), reading.problems());
        assertEquals("2", settings(reading).get("batch_size"));
        assertEquals("bf16", settings(reading).get("precision.mode"));
        Files.writeString(file, text + "mixed_precision: bf16\n");
        assertEquals(
                "mixed_precision and a deepspeed_config_file: Accelerate refuses both",
                Dialect.ACCELERATE
                        .read(YamlFile.read(file), Given.NOTHING)
                        .problems()
                        .getFirst()
                        .what());
        Files.writeString(file, text.replace("ds.json", "none-such.json"));
        assertEquals(
                1,
                Dialect.ACCELERATE
                        .read(YamlFile.read(file), Given.NOTHING)
                        .problems()
                        .size());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "distributed_type: MEGATRON_LM ; num_processes: 8 ; megatron_lm_config: {megatron_lm_tp_degree: 2,"
                        + " megatron_lm_pp_degree: 2, megatron_lm_num_micro_batches: 4,"
                        + " megatron_lm_sequence_parallelism: true, megatron_lm_use_distributed_optimizer: true} |"
                        + " tensor=2, pipeline=2, sequence_parallel=true, zero=1 | 8",
                "distributed_type: MEGATRON_LM ; num_processes: 4 ; megatron_lm_config: {megatron_lm_tp_degree: 1,"
                        + " megatron_lm_pp_degree: 4, megatron_lm_sequence_parallelism: true} | pipeline=4 | 1",
                "distributed_type: FSDP ; num_processes: 4 ; parallelism_config: {parallelism_config_tp_size: 2,"
                        + " parallelism_config_dp_shard_size: 2} | tensor=2, zero=3 | 2",
                "distributed_type: FSDP ; num_processes: 4 ; fsdp_config: {fsdp_reshard_after_forward: false} ;"
                        + " parallelism_config: {parallelism_config_dp_replicate_size: 2,"
                        + " parallelism_config_dp_shard_size: 2} | zero=2 | 4",
                "distributed_type: MULTI_GPU ; num_processes: 2 ; parallelism_config: {parallelism_config_tp_size: 2} |"
                        + " tensor=2 | 1"
            })
    void processes_that_share_the_model_are_the_mesh_here(String yaml, String mesh, int microBatches) {
        Reading reading = yaml(yaml.replace(" ; ", "\n") + "\n");
        assertTrue(reading.isHonoured(), reading.problems().toString());
        Map<String, String> wanted = new TreeMap<>();
        for (String pair : mesh.split(", ", -1)) {
            wanted.put("distributed." + pair.split("=", 2)[0], pair.split("=", 2)[1]);
        }
        Map<String, String> all = new TreeMap<>(settings(reading));
        assertEquals(String.valueOf(microBatches), all.get("gradient_accumulation"));
        all.keySet().removeIf(key -> !key.startsWith("distributed."));
        assertEquals(wanted, all);
    }

    @Test
    void processes_that_are_no_whole_groups_are_a_mistake() {
        Reading reading = yaml("""
            distributed_type: MEGATRON_LM
            num_processes: 6
            megatron_lm_config: {megatron_lm_tp_degree: 4}
            """);
        assertEquals(
                "6 processes are no groups of 4, which share the model",
                reading.problems().getFirst().what());
    }

    @Test
    void mistakes_are_named_with_what_was_meant() {
        assertEquals(
                "there is no distributed_type, and Accelerate needs it",
                yaml("mixed_precision: bf16\n").problems().getFirst().what());
        Reading unknown = yaml("distributed_type: 'NO'\nmixed_precison: bf16\n");
        assertTrue(
                unknown.problems().getFirst().fix().contains("mixed_precision"),
                unknown.problems().toString());
        assertEquals(1, yaml("distributed_type: SOME\n").problems().size());
        assertEquals(
                1,
                yaml("distributed_type: 'NO'\nnum_processes: many\n").problems().size());
        Reading parallel =
                yaml("distributed_type: MEGATRON_LM\nmegatron_lm_config: {megatron_lm_context_parallel_size: 2}\n");
        assertEquals(
                List.of("megatron_lm_config.megatron_lm_context_parallel_size"),
                parallel.rows(Fate.REFUSED).stream().map(Reading.Row::key).toList());
        Reading cloud =
                yaml("compute_environment: AMAZON_SAGEMAKER\ndistributed_type: 'NO'\nec2_instance_type: ml.p3\n");
        assertEquals(1, cloud.rows(Fate.REFUSED).size());
    }
}
