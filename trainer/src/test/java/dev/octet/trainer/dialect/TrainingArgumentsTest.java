package dev.octet.trainer.dialect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.yaml.HjsonFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What TrainingArguments become. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class TrainingArgumentsTest {
    private static final Path GOLDEN = Path.of(System.getProperty("octet.testdata"), "golden/dialect/transformers");

    private static Reading read(String json) {
        return Dialect.TRANSFORMERS.read(HjsonFile.parse(json, "args.json"), Given.NOTHING);
    }

    private static Map<String, String> settings(Reading reading) {
        Map<String, String> all = new TreeMap<>();
        reading.settings().forEach(s -> all.put(s.key(), s.value()));
        return all;
    }

    private static List<String> refused(String json) {
        return read(json).rows(Fate.REFUSED).stream().map(Reading.Row::key).toList();
    }

    @Test
    void the_pattern_of_parameters_without_decay_chooses_those_of_the_trainer_in_eighteen_models() throws IOException {
        Pattern pattern = Pattern.compile(TrainingArgumentsOptimizer.NO_DECAY);
        List<String> wrong = new ArrayList<>();
        int kept = 0;
        List<String> lines = Files.readAllLines(GOLDEN.resolve("decay.txt"));
        for (String line : lines) {
            String[] parts = line.split(" ", -1);
            boolean decays = !pattern.matcher(parts[1]).find();
            kept += decays ? 1 : 0;
            if (decays != parts[2].equals("1")) {
                wrong.add(line);
            }
        }
        assertEquals(List.of(), wrong);
        assertTrue(kept > 150 && lines.size() - kept > 150, kept + " of " + lines.size());
        assertEquals(18, lines.stream().map(l -> l.split(" ", -1)[0]).distinct().count());
    }

    @Test
    void defaults_are_those_of_transformers() {
        Map<String, String> all = settings(read("{\"output_dir\": \"out\"}"));
        assertEquals("8", all.get("batch_size"));
        assertEquals("5e-5", all.get("optimizer.lr"));
        assertEquals("adamw", all.get("optimizer.type"));
        assertEquals("0.0", all.get("optimizer.weight_decay"));
        assertEquals("1.0", all.get("clip_grad_norm"));
        assertEquals("linear", all.get("schedule.type"));
        assertEquals("3.0", all.get("epochs"));
        assertFalse(all.containsKey("precision.mode"));
    }

    @Test
    void optimizers_in_few_bits_are_torchaos_and_bitsandbytes_are_refused() {
        Map<String, String> eight =
                settings(read("{\"optim\": \"adamw_torch_8bit\", \"optim_args\": \"bf16_stochastic_round=True\"}"));
        assertEquals("torchao", eight.get("optimizer.states.engine"));
        assertEquals("8bit", eight.get("optimizer.states.format"));
        assertEquals("true", eight.get("optimizer.states.bf16_stochastic_round"));
        assertEquals(List.of("optim"), refused("{\"optim\": \"adamw_bnb_8bit\"}"));
        assertEquals(List.of("optim"), refused("{\"optim\": \"galore_adamw\"}"));
        assertEquals(1, read("{\"optim\": \"adamx\"}").problems().size());
        assertEquals("false", settings(read("{\"optim\": \"adafactor\"}")).get("optimizer.relative_step"));
    }

    @Test
    void schedules_take_their_arguments_and_no_others() {
        Map<String, String> all = settings(
                read("{\"lr_scheduler_type\": \"cosine_with_min_lr\", \"lr_scheduler_kwargs\": {\"min_lr_rate\":"
                        + " 0.1}, \"warmup_steps\": 0.06}"));
        assertEquals("0.1", all.get("schedule.min_lr_rate"));
        assertEquals("0.06", all.get("schedule.warmup"));
        assertEquals(
                "0.1",
                settings(read("{\"lr_scheduler_type\": \"cosine_with_min_lr\", \"lr_scheduler_kwargs\":"
                                + " \"{\\\"min_lr_rate\\\": 0.1}\"}"))
                        .get("schedule.min_lr_rate"));
        assertEquals(
                1,
                read("{\"lr_scheduler_type\": \"linear\", \"lr_scheduler_kwargs\": {\"power\": 2}}")
                        .problems()
                        .size());
    }

    @Test
    void schedules_that_follow_evaluations_need_some() {
        String plateau = "\"lr_scheduler_type\": \"reduce_lr_on_plateau\", \"warmup_steps\": 5";
        Reading reading = read(
                "{" + plateau + ", \"lr_scheduler_kwargs\": {\"patience\": 2}, \"eval_strategy\":" + " \"epoch\"}");
        assertEquals(List.of(), reading.problems());
        assertEquals("reduce_lr_on_plateau", settings(reading).get("schedule.type"));
        assertEquals("2", settings(reading).get("schedule.patience"));
        assertFalse(settings(reading).containsKey("schedule.warmup"));
        assertEquals(
                "schedule.warmup_evaluations: 3",
                read("{\"lr_scheduler_type\": \"greedy\", \"lr_scheduler_kwargs\": {\"warmup\": 3, \"verbose\": true},"
                                + " \"eval_strategy\": \"epoch\"}")
                        .settings()
                        .stream()
                        .filter(s -> s.key().startsWith("schedule.w"))
                        .map(s -> s.key() + ": " + s.value())
                        .findFirst()
                        .orElse(""));
        assertEquals(1, read("{" + plateau + "}").problems().size());
        assertEquals(
                "perplexity",
                settings(read("{" + plateau + ", \"eval_strategy\": \"epoch\", \"metric_for_best_model\":"
                                + " \"eval_perplexity\"}"))
                        .get("checkpoint.best"));
    }

    @Test
    void amp_is_torchs_autocast_or_apexs_level() {
        assertEquals("cuda", settings(read("{\"bf16\": true}")).get("precision.autocast"));
        assertEquals(
                "cpu", settings(read("{\"bf16\": true, \"use_cpu\": true}")).get("precision.autocast"));
        assertEquals(
                "O2",
                settings(read("{\"fp16\": true, \"half_precision_backend\": \"apex\", \"fp16_opt_level\": \"O2\"}"))
                        .get("precision.mode"));
        assertEquals(
                "fp16",
                settings(read("{\"fp16\": true, \"fp16_opt_level\": \"O2\"}")).get("precision.mode"));
        assertEquals(1, read("{\"fp16\": true, \"bf16\": true}").problems().size());
    }

    @Test
    void strategies_count_in_steps_and_in_shares_of_the_run() {
        Map<String, String> all =
                settings(read("{\"evaluation_strategy\": \"steps\", \"eval_steps\": 0.1, \"save_steps\": 0.25,"
                        + " \"max_steps\": 1001, \"save_total_limit\": 2}"));
        assertEquals("101", all.get("eval_every"));
        assertEquals("251", all.get("checkpoint.every"));
        assertEquals("2", all.get("checkpoint.keep"));
        assertEquals("1001", all.get("steps"));
        Map<String, String> epochs = settings(read("{\"eval_strategy\": \"epoch\", \"save_strategy\": \"epoch\"}"));
        assertEquals("epoch", epochs.get("eval_every"));
        assertEquals("epoch", epochs.get("checkpoint.every"));
        assertEquals("500", settings(read("{\"eval_strategy\": \"steps\"}")).get("eval_every"));
    }

    @Test
    void what_a_run_does_not_do_is_refused_with_the_reason() {
        assertEquals("0.1", settings(read("{\"label_smoothing_factor\": 0.1}")).get("loss.label_smoothing"));
        assertEquals(1, read("{\"label_smoothing_factor\": -0.1}").problems().size());
        assertEquals(List.of("neftune_noise_alpha"), refused("{\"neftune_noise_alpha\": 5}"));
        assertEquals(List.of("push_to_hub"), refused("{\"push_to_hub\": true}"));
        assertEquals(List.of("resume_from_checkpoint"), refused("{\"resume_from_checkpoint\": \"out/checkpoint-5\"}"));
        assertEquals(
                List.of(),
                refused("{\"push_to_hub\": false, \"label_smoothing_factor\": 0.0, \"neftune_noise_alpha\": null}"));
        assertTrue(read("{\"learing_rate\": 1}").problems().getFirst().fix().contains("learning_rate"));
    }

    @Test
    void processes_that_share_layers_are_those_of_the_mesh() {
        Reading reading = read("{\"parallelism_config\": {\"tp_size\": 2, \"dp_shard_size\": 4}}");
        assertEquals("2", settings(reading).get("distributed.tensor"));
        assertEquals(List.of("parallelism_config.cp_size"), refused("{\"parallelism_config\": {\"cp_size\": 2}}"));
        assertEquals(List.of(), refused("{\"parallelism_config\": {\"tp_size\": 1, \"cp_size\": 1}}"));
    }

    @Test
    void the_best_checkpoint_is_kept_and_compared_as_in_transformers() {
        String both = "\"eval_strategy\": \"epoch\", \"save_strategy\": \"epoch\", \"load_best_model_at_end\": true";
        Map<String, String> all = settings(read("{" + both + "}"));
        assertEquals("loss", all.get("checkpoint.best"));
        all = settings(read("{" + both + ", \"metric_for_best_model\": \"perplexity\"}"));
        assertEquals("perplexity", all.get("checkpoint.best"));
        assertEquals("true", all.get("checkpoint.greater_is_better")); // what transformers takes it for
        all = settings(read("{" + both + ", \"metric_for_best_model\": \"perplexity\", \"greater_is_better\": false}"));
        assertEquals("false", all.get("checkpoint.greater_is_better"));
        assertEquals(
                List.of("metric_for_best_model"), refused("{" + both + ", \"metric_for_best_model\": \"accuracy\"}"));
        all = settings(read("{\"eval_strategy\": \"steps\", \"eval_steps\": 5, \"save_strategy\": \"best\","
                + " \"metric_for_best_model\": \"loss\"}"));
        assertEquals("0", all.get("checkpoint.every"));
        assertEquals("loss", all.get("checkpoint.best"));
    }

    @Test
    void strategies_that_transformers_refuses_are_mistakes() {
        for (String json : List.of(
                "{\"load_best_model_at_end\": true}", // evaluations: no, checkpoints: steps
                "{\"load_best_model_at_end\": true, \"eval_strategy\": \"epoch\"}",
                "{\"load_best_model_at_end\": true, \"eval_strategy\": \"steps\", \"eval_steps\": 3, \"save_steps\":"
                        + " 10}",
                "{\"save_strategy\": \"best\", \"eval_strategy\": \"epoch\"}",
                "{\"save_strategy\": \"best\", \"metric_for_best_model\": \"loss\"}",
                "{\"load_best_model_at_end\": true, \"metric_for_best_model\": \"loss\", \"greater_is_better\": false}",
                "{\"save_strategy\": \"often\"}")) {
            assertEquals(1, read(json).problems().size(), json);
        }
    }

    @Test
    void a_deepspeed_object_among_the_arguments_is_read_as_a_file_of_its_own() {
        String inner = "{\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_clipping\": \"auto\","
                + " \"zero_optimization\": {\"stage\": 1}}";
        for (String value : List.of(inner, "\"" + inner.replace("\"", "\\\"") + "\"")) {
            Reading reading =
                    read("{\"per_device_train_batch_size\": 3, \"max_grad_norm\": 0.5, \"deepspeed\": " + value + "}");
            assertEquals(List.of(), reading.problems());
            assertEquals("3", settings(reading).get("batch_size"));
            assertEquals("0.5", settings(reading).get("clip_grad_norm"));
        }
        Reading wrong = read("{\"deepspeed\": {\"train_micro_batch_size_per_gpu\": 2,\n\"zero_optimisation\": {}}}");
        assertTrue(wrong.problems().getFirst().what().contains("zero_optimisation"));
        assertTrue(wrong.problems().getFirst().fix().contains("zero_optimization"));
    }

    @Test
    void a_deepspeed_json_is_filled_from_the_arguments_that_name_it(@TempDir Path folder) throws IOException {
        Files.writeString(
                folder.resolve("ds.json"),
                "{\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_clipping\": \"auto\", \"bf16\":"
                        + " {\"enabled\": \"auto\"}, \"zero_optimization\": {\"stage\": 1}}");
        Path file = folder.resolve("args.json");
        Files.writeString(
                file, "{\"deepspeed\": \"ds.json\", \"per_device_train_batch_size\": 3, \"max_grad_norm\": 0.5}");
        Reading reading = Dialect.TRANSFORMERS.read(HjsonFile.read(file), Given.NOTHING);
        assertEquals(List.of(), reading.problems());
        assertEquals("3", settings(reading).get("batch_size"));
        assertEquals("0.5", settings(reading).get("clip_grad_norm"));
    }
}
