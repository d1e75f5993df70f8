package dev.octet.trainer.dialect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.activation.Home;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.dialect.Reading.Row;
import dev.octet.trainer.yaml.HjsonFile;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What becomes of a JSON of DeepSpeed; numbers are in {@link DeepSpeedNumbersTest}, each key by itself in {@link KeyTableTest}. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class DeepSpeedTest {
    private static final Path CONFIGS = Path.of(System.getProperty("octet.testdata"), "configs/deepspeed");

    private static Reading read(String members, Given given) {
        String batch = members.contains("train_") ? "" : "\"train_batch_size\": 8, ";
        return Dialect.DEEPSPEED.read(HjsonFile.parse("{" + batch + members + "}", "ds.json"), given);
    }

    private static Reading read(String members) {
        return read(members, Given.NOTHING);
    }

    private static Row row(Reading reading, String key) {
        return reading.rows().stream()
                .filter(r -> r.key().equals(key))
                .findFirst()
                .orElseThrow();
    }

    private static Map<String, String> settings(Reading reading) {
        return reading.settings().stream().collect(Collectors.toMap(Setting::key, Setting::value));
    }

    private static Given arguments(String json) {
        return Given.NOTHING.withArguments(HjsonFile.parse(json, "args.json"));
    }

    private static List<String> problems(Reading reading) {
        return reading.problems().stream().map(Reading.Problem::what).toList();
    }

    @ParameterizedTest
    @ValueSource(strings = {"zero3-offload.json", "old-spellings.hjson", "msamp.json", "finetune-zero2.json"})
    void the_yaml_of_a_whole_file_reads_back_as_its_settings(String name) throws IOException {
        Given given = arguments("{\"bf16\": true, \"max_steps\": 50, \"warmup_steps\": 5}");
        Reading reading = Dialect.DEEPSPEED.read(
                HjsonFile.read(CONFIGS.resolve(name)), name.startsWith("finetune") ? given : Given.NOTHING);
        reading.requireHonoured();
        Map<String, String> written = YamlFile.parse(reading.yaml(List.of("a head")), "train.yaml").written().stream()
                .filter(w -> !w.value().startsWith("{"))
                .collect(Collectors.toMap(w -> w.key(), w -> w.value()));
        assertEquals(
                settings(reading).entrySet().stream()
                        .collect(Collectors.toMap(
                                Map.Entry::getKey, e -> e.getValue().replace("'", ""))),
                written);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-4, \"adam_w_mode\": false}}",
                "\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.1, \"momentum\": 0.9, \"nesterov\": true}}",
                "\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"lr\": 1e-3, \"max_coeff\": 0.3,"
                        + " \"bias_correction\": false}}",
                "\"optimizer\": {\"type\": \"LION\", \"params\": {\"lr\": 1e-4, \"weight_decay\": 0.1}}",
                "\"optimizer\": {\"type\": \"Muon\", \"params\": {\"muon_lr\": 0.02, \"adam_lr\": 3e-4, \"momentum\":"
                        + " 0.9}}",
                "\"fp16\": {\"enabled\": true, \"min_loss_scale\": 0.5}",
                "\"fp16\": {\"enabled\": true, \"loss_scale\": 64}",
                "\"bf16\": {\"enabled\": true}",
                "\"msamp\": {\"enabled\": true, \"opt_level\": \"O2\"}, \"optimizer\": {\"type\": \"Adam\"}",
                "\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\":"
                        + " \"swap\"}}",
                "\"activation_checkpointing\": {\"partition_activations\": true, \"number_checkpoints\": 4}",
                "\"torch_autocast\": {\"enabled\": true, \"dtype\": \"bfloat16\"}",
                "\"amp\": {\"enabled\": true, \"opt_level\": \"O1\", \"loss_scale\": \"dynamic\", \"max_loss_scale\":"
                        + " 65536}",
                "\"amp\": {\"enabled\": true, \"opt_level\": \"O2\", \"loss_scale\": 128, \"keep_batchnorm_fp32\":"
                        + " true}",
                "\"zero_optimization\": {\"stage\": 2}, \"bf16\": {\"enabled\": true,"
                        + " \"bf16_master_weights_and_grads\": true, \"bf16_optimizer_states\": true}",
                "\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 1e-5, \"cycle_max_lr\": 1e-3}}",
                "\"scheduler\": {\"type\": \"MultiStepLR\", \"params\": {\"milestones\": [3, 8], \"gamma\": 0.5}}",
                "\"scheduler\": {\"type\": \"OneCycleLR\", \"params\": {\"max_lr\": 1e-3, \"epochs\": 2,"
                        + " \"steps_per_epoch\": 8}}",
            })
    void what_a_file_becomes_is_a_configuration_that_a_run_takes(String members) {
        Reading reading = read(members);
        if (members.contains("min_loss_scale")) { // a whole number in DeepSpeed
            assertEquals(1, reading.problems().size());
            return;
        }
        reading.requireHonoured();
        TrainingConfig config = TrainingConfig.of(
                YamlFile.parse(
                        "data: {train: a.npz}\nloss: {type: mse}\nsteps: 10\n" + reading.yaml(List.of()), "train.yaml"),
                Path.of(""));
        assertEquals(8, config.batchSize());
    }

    @Test
    void defaults_that_matter_are_rows_without_a_line() {
        Reading reading = read("\"optimizer\": {\"type\": \"AdamW\"}");
        assertTrue(row(reading, "gradient_clipping").line().isEmpty());
        assertEquals("clip_grad_norm: 1.0", row(reading, "gradient_clipping").becomes());
        assertEquals(
                "optimizer.weight_decay: 0.0",
                row(reading, "optimizer.params.weight_decay").becomes());
        assertTrue(reading.settings().stream()
                .filter(s -> s.key().equals("clip_grad_norm"))
                .allMatch(Setting::isDefault));
    }

    @Test
    void auto_without_a_value_names_its_argument() {
        Reading reading =
                read("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": \"auto\"}},"
                        + " \"train_micro_batch_size_per_gpu\": \"auto\"");
        assertEquals(
                List.of(
                        "\"auto\" of train_micro_batch_size_per_gpu has no value: transformers fills it from"
                                + " per_device_train_batch_size",
                        "\"auto\" of optimizer.params.lr has no value: transformers fills it from learning_rate",
                        "\"auto\" of optimizer.params.betas has no value: transformers fills it from adam_beta1,"
                                + " adam_beta2"),
                problems(reading));
        assertEquals(
                List.of("nothing fills \"auto\" of 'fp16.loss_scale': transformers has no argument for it"),
                problems(read("\"fp16\": {\"enabled\": true, \"loss_scale\": \"auto\"}")));
        assertTrue(read("\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": \"auto\","
            + " \"stage3_prefetch_bucket_size\": \"auto\", \"stage3_param_persistence_threshold\": \"auto\"}")
                .isHonoured());
    }

    @Test
    void stages_of_zero_are_what_ranks_share_out_and_buckets_count_bytes() {
        for (int stage = 1; stage <= 3; stage++) {
            Reading reading = read("\"zero_optimization\": {\"stage\": " + stage + ", \"reduce_bucket_size\": 5e6}");
            assertEquals(
                    Map.of("distributed.zero", String.valueOf(stage), "distributed.bucket_size", "20000000"),
                    shares(reading));
            assertTrue(reading.isHonoured());
        }
        assertEquals(Map.of(), shares(read("\"zero_optimization\": {\"stage\": 0, \"reduce_bucket_size\": 5e6}")));
        assertEquals(Map.of("distributed.zero", "1"), shares(read("\"zero_optimization\": true")));
        assertEquals(
                Map.of("distributed.zero", "2"),
                shares(read("\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": \"auto\"}")));
        assertEquals(List.of("ZeRO has no stage 4"), problems(read("\"zero_optimization\": {\"stage\": 4}")));
    }

    private static Map<String, String> shares(Reading reading) {
        return reading.settings().stream()
                .filter(s -> s.key().startsWith("distributed."))
                .collect(Collectors.toMap(Setting::key, Setting::value));
    }

    @Test
    void auto_is_filled_from_arguments_and_from_their_defaults() {
        Reading reading = read(
                "\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\","
                        + " \"gradient_accumulation_steps\": \"auto\", \"gradient_clipping\": \"auto\", \"bf16\":"
                        + " {\"enabled\": \"auto\"}, \"fp16\": {\"enabled\": \"auto\"}, \"optimizer\": {\"type\":"
                        + " \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": \"auto\", \"eps\": \"auto\","
                        + " \"weight_decay\": \"auto\"}}, \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\":"
                        + " {\"total_num_steps\": \"auto\", \"warmup_min_lr\": \"auto\", \"warmup_max_lr\": \"auto\","
                        + " \"warmup_num_steps\": \"auto\"}}",
                arguments("{\"gradient_accumulation_steps\": 3, \"adam_beta2\": 0.95, \"warmup_ratio\": 0.1,"
                                + " \"bf16\": true}")
                        .withSteps(25));
        assertEquals(List.of(), reading.problems());
        Map<String, String> settings = settings(reading);
        Map.of(
                        "batch_size", "8",
                        "gradient_accumulation", "3",
                        "clip_grad_norm", "1.0",
                        "optimizer.lr", "5e-5",
                        "optimizer.betas", "[0.9, 0.95]",
                        "optimizer.weight_decay", "0.0",
                        "schedule.total_num_steps", "25",
                        "schedule.warmup_num_steps", "3",
                        "schedule.warmup_max_lr", "5e-5",
                        "precision.mode", "bf16")
                .forEach((key, value) -> assertEquals(value, settings.get(key), key));
        assertEquals(
                "auto = 5e-5 (learning_rate)",
                row(reading, "optimizer.params.lr").value());
    }

    @Test
    void total_steps_that_nobody_knows_are_asked_for() {
        String scheduler = "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": \"auto\"}}";
        assertEquals(
                List.of("\"auto\" of scheduler.params.total_num_steps needs the number of steps, and max_steps is not"
                        + " given"),
                problems(read(scheduler, arguments("{\"learning_rate\": 1e-3}"))));
        assertTrue(read(scheduler, arguments("{\"max_steps\": 9}")).isHonoured());
    }

    @Test
    void all_values_that_contradict_the_arguments_are_listed() {
        Reading reading = read(
                "\"train_micro_batch_size_per_gpu\": 4, \"gradient_clipping\": 0.5, \"optimizer\": {\"type\":"
                        + " \"AdamW\", \"params\": {\"lr\": 1e-3, \"eps\": 0.00000001}}",
                arguments("{\"per_device_train_batch_size\": 8}"));
        assertEquals(
                List.of(
                        "train_micro_batch_size_per_gpu is 4, but per_device_train_batch_size of the TrainingArguments"
                                + " gives 8",
                        "gradient_clipping is 0.5, but max_grad_norm of the TrainingArguments gives 1.0",
                        "optimizer.params.lr is 1e-3, but learning_rate of the TrainingArguments gives 5e-5"),
                problems(reading));
    }

    @Test
    void a_wrong_value_is_named_with_what_it_should_be() {
        assertEquals(
                List.of("'gradient_clipping' is 'NaN', not a number"),
                problems(read("\"gradient_clipping\": \"NaN\"")));
        assertEquals(
                List.of("'gradient_clipping' is 1e999, not a number"), problems(read("\"gradient_clipping\": 1e999")));
        assertEquals(
                List.of("'train_batch_size' is 1.5, not a whole number"),
                problems(read("\"train_batch_size\": 1.5")).subList(0, 1));
        assertEquals(List.of("'bf16.enabled' is 2, not true or false"), problems(read("\"bf16\": {\"enabled\": 2}")));
        assertEquals(
                List.of("'optimizer' holds keys and values, not 'Adam'"), problems(read("\"optimizer\": \"Adam\"")));
        assertEquals(
                List.of("'optimizer.params.betas' is 0.9, not a list"),
                problems(read("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": 0.9}}")));
        assertEquals(
                List.of("'gradient_clipping' is the text \"1\", not a number"),
                problems(read("\"gradient_clipping\": \"1\"")));
        assertTrue(read("\"zero_optimization\": {\"stage\": \"2\"}").isHonoured());
        assertEquals(
                List.of("train_batch_size is 1e300"),
                problems(read("\"train_batch_size\": 1e300")).subList(0, 1));
    }

    @Test
    void zero_3_with_offload_in_one_process_keeps_states_and_weights_elsewhere() {
        String cpu = ("\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"},"
                + " \"offload_optimizer\": {\"device\": \"cpu\"}}");
        Reading gpu = read(cpu, Given.NOTHING.on(true));
        assertEquals("host", settings(gpu).get("offload.states"));
        assertEquals("host", settings(gpu).get("offload.parameters"));
        assertTrue(read(cpu).isHonoured());
        assertEquals(
                Fate.NO_EFFECT,
                row(read(cpu), "zero_optimization.offload_param.device").fate());
        Reading nvme = read(
                "\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/my"
                        + " swap\"}}");
        assertEquals("disk", settings(nvme).get("offload.parameters"));
        assertEquals("'/my swap'", settings(nvme).get("offload.path"));
        Reading onGpu = read(
                "\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\", \"nvme_path\":"
                        + " \"/a\"}}",
                Given.NOTHING.on(true));
        InvalidOptionException refused = assertThrows(InvalidOptionException.class, onGpu::requireHonoured);
        assertTrue(refused.what().contains("to the memory of the host, not to a disk: write cpu."), refused.what());
        assertEquals("ds.json, line 1", refused.where());
        Reading two =
                read("\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\", \"nvme_path\":"
                        + " \"/a\"}, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/b\"}}");
        assertTrue(
                problems(two).getFirst().contains("offload.path: /a, and"),
                problems(two).toString());
        assertEquals(
                List.of("moments and masters are to go to a disk, but nvme_path is missing"),
                problems(read("\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"nvme\"}}")));
    }

    @Test
    void offload_counts_with_the_stages_that_deepspeed_reads_it_with() {
        Reading none = read(
                "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}, \"cpu_offload_param\": true}");
        assertFalse(settings(none).keySet().stream().anyMatch(k -> k.startsWith("offload")));
        assertEquals(
                Fate.NO_EFFECT,
                row(none, "zero_optimization.offload_optimizer.device").fate());
        Reading two = read(
                "\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true, \"offload_param\": {\"device\":"
                        + " \"cpu\"}}",
                Given.NOTHING.on(true));
        assertEquals("host", settings(two).get("offload.states"));
        assertEquals(
                "DeepSpeed reads it with stage 3 only.",
                row(two, "zero_optimization.offload_param.device").reason());
    }

    @Test
    void checkpoints_on_the_cpu_are_activations_on_the_host_where_the_device_is_a_gpu() {
        String host = "activation_checkpointing.cpu_checkpointing";
        String alone = "\"activation_checkpointing\": {\"cpu_checkpointing\": true}";
        Reading gpu = read(alone, Given.NOTHING.on(true));
        assertEquals("host", settings(gpu).get("offload.activations"));
        assertEquals("all", settings(gpu).get("gradient_checkpointing.layers"));
        assertEquals(Fate.MAPPED, row(gpu, host).fate());
        Offload offload = TrainingConfig.of(
                        YamlFile.parse(
                                "data: {train: a.npz}\nloss: {type: mse}\nsteps: 10\n" + gpu.yaml(List.of()),
                                "train.yaml"),
                        Path.of(""))
                .offload();
        assertEquals(Home.HOST, offload.activations());
        Reading cpu = read(alone);
        assertFalse(settings(cpu).containsKey("offload.activations"));
        assertEquals("all", settings(cpu).get("gradient_checkpointing.layers"));
        String both = "\"activation_checkpointing\": {\"partition_activations\": true, \"cpu_checkpointing\": true}";
        assertEquals("host", settings(read(both, Given.NOTHING.on(true))).get("offload.activations"));
        assertEquals(Fate.NO_EFFECT, row(read(both), host).fate());
        assertTrue(row(read(both), host).reason().endsWith("on a GPU it is offload.activations: host."));
        Reading off = read("\"activation_checkpointing\": {\"cpu_checkpointing\": false}", Given.NOTHING.on(true));
        assertEquals(
                Map.of(),
                off.settings().stream()
                        .filter(x -> x.key().contains("activations"))
                        .collect(Collectors.toMap(Setting::key, Setting::value)));
    }

    @Test
    void schedules_of_torch_are_taken_by_name_unless_no_json_can_hold_them() {
        String type = "scheduler.type";
        Reading step = read("\"scheduler\": {\"type\": \"StepLR\", \"params\": {\"step_size\": 30}}");
        assertEquals("StepLR", settings(step).get("schedule.type"));
        assertEquals("30", settings(step).get("schedule.step_size"));
        assertEquals(
                "torch's: DeepSpeed takes those by name that it does not have.",
                row(step, type).reason());
        Reading wrapped = read("\"scheduler\": {\"type\": \"StepLR\", \"params\": {\"step_size\": 30}}, \"bf16\":"
                + " {\"enabled\": true}");
        assertTrue(
                row(wrapped, type).reason().contains("DeepSpeed fails with it"),
                row(wrapped, type).reason());
        Reading cycle = read("\"scheduler\": {\"type\": \"OneCycleLR\", \"params\": {\"max_lr\": 1e-3, \"epochs\": 3,"
                + " \"steps_per_epoch\": 100}}");
        assertEquals("300", settings(cycle).get("schedule.total_steps"));
        for (String name :
                List.of("LambdaLR", "MultiplicativeLR", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau")) {
            Reading refused = read("\"scheduler\": {\"type\": \"" + name + "\", \"params\": {\"gamma\": 1}}");
            assertEquals(Fate.REFUSED, row(refused, type).fate(), name);
            assertEquals(Fate.NO_EFFECT, row(refused, "scheduler.params.gamma").fate(), name);
        }
        assertEquals(
                List.of("neither DeepSpeed nor torch has a schedule 'StepLr'"),
                problems(read("\"scheduler\": {\"type\": \"StepLr\"}")));
        assertEquals(
                List.of("CosineAnnealingLR needs T_max"),
                problems(read("\"scheduler\": {\"type\": \"CosineAnnealingLR\", \"params\": {}}")));
        assertEquals(
                List.of("StepLR has no T_max"),
                problems(read("\"scheduler\": {\"type\": \"StepLR\", \"params\": {\"step_size\": 3, \"T_max\": 4}}")));
        assertEquals(
                List.of("OneCycleLR needs total_steps, or epochs and steps_per_epoch"),
                problems(
                        read("\"scheduler\": {\"type\": \"OneCycleLR\", \"params\": {\"max_lr\": 1, \"epochs\": 2}}")));
        assertEquals(
                List.of("CyclicLR has no mode 'square', and torch fails with it"),
                problems(read("\"scheduler\": {\"type\": \"CyclicLR\", \"params\": {\"base_lr\": 0.1, \"max_lr\": 1,"
                        + " \"mode\": \"square\"}}")));
        assertEquals(
                List.of("scheduler.params.milestones is [1.5]"),
                problems(read("\"scheduler\": {\"type\": \"MultiStepLR\", \"params\": {\"milestones\": [1.5]}}")));
    }

    @Test
    void a_library_is_known_by_its_keys() {
        Map<String, Optional<Dialect>> files = Map.of(
                "{train_batch_size: 8, fp16: {}}", Optional.of(Dialect.DEEPSPEED),
                "{a: 1, b: 2}", Optional.empty(),
                "{}", Optional.empty(),
                "{learning_rate: 1e-3, per_device_train_batch_size: 8, a: 1}", Optional.of(Dialect.TRANSFORMERS));
        files.forEach((text, dialect) -> assertEquals(dialect, Dialect.of(HjsonFile.parse(text, "x")), text));
        assertTrue(TrainingConfig.knows(HjsonFile.parse("{optimizer: {}, batch_size: 8, precision: {}}", "x")));
        assertFalse(TrainingConfig.knows(HjsonFile.parse("{optimizer: {}, train_batch_size: 8}", "x")));
    }

    @Test
    void a_file_of_many_unknown_keys_is_refused_soon() {
        String many = IntStream.range(0, 20_000)
                .mapToObj(i -> "\"key" + i + "\": {\"a.b\": " + i + "}")
                .collect(Collectors.joining(", "));
        assertTimeoutPreemptively(Duration.ofSeconds(30), () -> {
            Reading reading = read(many);
            assertEquals(20_000, reading.problems().size());
            assertThrows(InvalidOptionException.class, reading::requireHonoured);
        });
    }

    @Test
    void keys_with_dots_in_their_names_stay_what_they_are() {
        Reading reading =
                read("\"compression_training\": {\"row_pruning\": {\"different_groups\": {\"a.b\": {\"modules\":"
                        + " [\"x\"]}}}}, \"optimizer.params.lr\": 3");
        assertTrue(reading.rows().stream().noneMatch(r -> r.fate() == Fate.REFUSED));
        assertEquals(List.of("DeepSpeed knows no key 'optimizer.params.lr'"), problems(reading));
        assertFalse(settings(reading).containsKey("optimizer.lr"));
    }
}
