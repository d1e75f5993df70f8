package dev.octet.trainer.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.collective.Mesh;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.optimizer.ScheduleType;
import dev.octet.trainer.rule.AdafactorRule;
import dev.octet.trainer.rule.LambRule;
import dev.octet.trainer.rule.MuonRule;
import dev.octet.trainer.shard.ZeroStage;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TrainingConfigTest {
    private static final String SMALL = """
        data: {train: a.npz}
        loss: {type: mse}
        steps: 10
        """;

    private static final String WHOLE = """
        data:      {train: train.npz, eval: eval.npz, shuffle: true}
        loss:      {type: causal-lm, output: logits, labels: labels, ignore_index: -100}
        batch_size: 8
        gradient_accumulation: 1
        steps: 1000
        seed: 1
        optimizer: {type: adamw, lr: 1.0e-4, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.01}
        schedule:  {type: linear, warmup: 100}
        clip_grad_norm: 1.0
        freeze:    [ "embeddings.*" ]
        checkpoint: {every: 100, keep: 3}
        eval_every: 100
        """;

    private static TrainingConfig parse(String text) {
        return TrainingConfig.of(YamlFile.parse(text, "c.yaml"), Path.of("runs"));
    }

    private static InvalidOptionException refused(String text) {
        return assertThrows(InvalidOptionException.class, () -> parse(text));
    }

    @Test
    void every_key_is_read() {
        TrainingConfig c = parse(WHOLE);
        assertEquals(Path.of("runs/train.npz"), c.data().train());
        assertEquals(Path.of("runs/eval.npz"), c.data().eval().orElseThrow());
        assertEquals(LossConfig.Type.CAUSAL_LM, c.loss().type());
        assertEquals("logits", c.loss().output().orElseThrow());
        assertEquals(-100, c.loss().ignoreIndex());
        assertEquals(8, c.batchSize());
        assertEquals(1000, c.steps());
        assertEquals(OptimizerConfig.Type.ADAMW, c.optimizer().type());
        assertEquals(1e-4, c.optimizer().lr());
        assertEquals(1e-8, c.optimizer().eps()); // YAML 1.1 takes 1e-8 for text
        assertEquals(ScheduleType.LINEAR, c.schedule().type());
        assertEquals(100, c.schedule().warmup());
        assertEquals(1.0, c.clipGradNorm().orElseThrow());
        assertEquals("embeddings.*", c.freeze().getFirst().pattern());
        assertEquals(3, c.checkpoint().keep());
        assertEquals(Cadence.ofSteps(100), c.evalEvery());
    }

    @Test
    void evaluations_and_checkpoints_come_with_each_epoch_and_the_best_is_kept() {
        TrainingConfig c = parse(SMALL.replace("data: {train: ", "data: {eval: b, train: ")
                + "eval_every: epoch\ncheckpoint: {every: epoch, best: eval_perplexity}");
        assertEquals(Cadence.EPOCH, c.evalEvery());
        assertEquals(Cadence.EPOCH, c.checkpoint().every());
        assertEquals(
                new CheckpointConfig.Best("perplexity", false),
                c.checkpoint().best().orElseThrow());
        assertTrue(parse(SMALL.replace("data: {train: ", "data: {eval: b, train: ")
                        + "eval_every: 5\ncheckpoint: {best: rewards/margins}")
                .checkpoint()
                .best()
                .orElseThrow()
                .greaterIsBetter());
    }

    @Test
    void what_ranks_share_out_is_read_with_its_defaults_and_is_no_setting_without() {
        DistributedConfig none = parse(SMALL).distributed();
        assertEquals(DistributedConfig.NONE, none);
        assertEquals(25L << 20, none.bucketSize());
        assertTrue(Settings.of(parse(SMALL)).keySet().stream().noneMatch(k -> k.startsWith("distributed")));
        TrainingConfig config = parse(SMALL + "distributed: {zero: 3, bucket_size: 1MiB, reshape: true}");
        assertEquals(new DistributedConfig(0, 1, 1, 1, false, ZeroStage.WEIGHTS, 1 << 20, true), config.distributed());
        assertEquals("3", Settings.of(config).get("distributed.zero"));
        assertEquals("1048576", Settings.of(config).get("distributed.bucket_size"));
    }

    @ParameterizedTest
    @CsvSource({"4, 1, 1, 4", "4, 2, 1, 2", "8, 2, 2, 2", "6, 1, 3, 2", "4, 4, 1, 1"})
    void ranks_that_a_mesh_leaves_are_data_parallel(int processes, int tensor, int pipeline, int data) {
        String text =
                SMALL + "gradient_accumulation: 8\ndistributed: {tensor: " + tensor + ", pipeline: " + pipeline + "}";
        TrainingConfig config = TrainingConfig.of(YamlFile.parse(text, "train.yaml"), Path.of(""), processes);
        assertEquals(
                new Mesh(data, tensor, pipeline, 1, 0), config.distributed().mesh(processes));
        assertEquals(data, config.precision().ranks().ranks());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "tensor: 4           | 6 | a mesh of groups of 4 ranks cannot be made of 6 processes | mpirun -n 8",
                "data: 2, tensor: 2  | 8 | a mesh of 4 ranks cannot be made of 8 processes           | mpirun -n 4",
                "pipeline: 2         | 3 | a mesh of groups of 2 ranks cannot be made of 3 processes | mpirun -n 4"
            })
    void a_mesh_that_is_not_as_many_ranks_as_there_are_is_refused(String mesh, int processes, String what, String fix) {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> TrainingConfig.of(
                        YamlFile.parse(SMALL + "distributed: {" + mesh + "}", "train.yaml"), Path.of(""), processes));
        assertEquals(what, e.what());
        assertTrue(e.fix().contains(fix), e.fix());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "distributed: {zero: 4}            | 4 is out of range              | give a whole number from 0 to 3",
                "distributed: {zero: two}          | 'two' is not a whole number    | give a whole number from 0 to 3",
                "distributed: {bucket_size: 0}     | '0' is not a size in bytes     | write it as 4GB, 512MB or 1.5GiB",
                "distributed: {stage: 2}           | unknown key 'distributed.stage' | valid: bucket_size, chunks,"
                        + " data, pipeline, reshape, sequence_parallel, tensor, zero",
                "distributed: {tensor: 0}          | 0 is out of range              | give a whole number from 1 to"
                        + " 1024",
                "distributed: {sequence_parallel: true} | tensor-parallel ranks share out a sequence, and there are"
                        + " none | add tensor: 2, or leave sequence_parallel out",
                "distributed: {chunks: 2}          | stages have chunks, and there is one stage | add pipeline: 2, or"
                        + " leave chunks out"
            })
    void a_bad_stage_or_bucket_is_refused_with_what_is_valid(String line, String what, String fix) {
        InvalidOptionException e = refused(SMALL + line);
        assertEquals(what, e.what());
        assertEquals(fix, e.fix());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "checkpoint: {best: loss}              | no evaluations before the end      | eval_every",
                "checkpoint: {greater_is_better: true} | best is missing                    | best: loss",
                "eval_every: epoch                     | no evaluation data                 | data: {eval",
                "eval_every: epochs                    | 'epochs' is not a whole number     | whole number",
                "label_smoothing_factor: 0.1           | label_smoothing_factor             | loss: {label_smoothing:"
                        + " 0.1}",
                "load_best_model_at_end: true          | load_best_model_at_end             | checkpoint: {best: loss}",
            })
    void evaluations_that_cannot_be_are_refused(String line, String what, String fix) {
        InvalidOptionException e = refused(SMALL + line);
        assertTrue(e.what().contains(what), e.what());
        assertTrue(e.fix().contains(fix), e.fix());
    }

    @Test
    void labels_are_smoothed_in_losses_over_classes_only() {
        assertEquals(
                0.1,
                parse(SMALL.replace("type: mse", "type: causal-lm, label_smoothing: 0.1"))
                        .loss()
                        .labelSmoothing()
                        .orElseThrow());
        assertTrue(parse(SMALL.replace("type: mse", "type: causal-lm, label_smoothing: 0"))
                .loss()
                .labelSmoothing()
                .isEmpty());
        assertTrue(refused(SMALL.replace("type: mse", "type: mse, label_smoothing: 0.1"))
                .what()
                .contains("only losses over classes"));
        assertTrue(refused(SMALL.replace(
                        "type: mse", "type: causal-lm, label_smoothing: 0.1, distillation: {teacher: t.onnx}"))
                .what()
                .contains("no label is a target"));
    }

    @Test
    void checkpoints_are_kept_every_500_steps_or_30_minutes_unless_something_else_is_said() {
        assertEquals(
                new CheckpointConfig(Cadence.ofSteps(500), 30, 3, Optional.empty()),
                parse(SMALL).checkpoint());
        assertEquals(
                new CheckpointConfig(Cadence.ofSteps(100), 0, 3, Optional.empty()),
                parse(SMALL + "checkpoint: {every: 100}").checkpoint());
        assertEquals(
                new CheckpointConfig(Cadence.ofSteps(0), 0, 3, Optional.empty()),
                parse(SMALL + "checkpoint: {every: 0}").checkpoint());
        assertEquals(
                new CheckpointConfig(Cadence.ofSteps(500), 5, 1, Optional.empty()),
                parse(SMALL + "checkpoint: {minutes: 5, keep: 1}").checkpoint());
    }

    @ParameterizedTest
    @CsvSource({"0.1, 1", "10%, 1", "1.0e-1, 1", "0.15, 2", "3, 3", "0, 0"})
    void a_warm_up_is_steps_or_a_share_of_them(String warmup, long steps) {
        assertEquals(
                steps,
                parse(SMALL + "schedule: {type: linear, warmup: " + warmup + "}")
                        .schedule()
                        .warmup());
    }

    @Test
    void epochs_become_steps_when_the_samples_are_known() {
        TrainingConfig c = parse(SMALL.replace("steps: 10", "epochs: 3") + "schedule: {warmup: 0.25}");
        assertEquals(0, c.steps());
        TrainingConfig known = c.forSamples(85); // 10 batches of 8
        assertEquals(30, known.steps());
        assertEquals(8, known.schedule().warmup());
        assertEquals(parse(SMALL), parse(SMALL).forSamples(85));
        TrainingConfig tooShort = parse(SMALL.replace("steps: 10", "epochs: 1") + "schedule: {warmup: 11}");
        assertThrows(InvalidOptionException.class, () -> tooShort.forSamples(80));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "learning_rate: 5e-5                  | write optimizer: {lr: 5e-5}",
                "num_train_epochs: 3                  | write epochs: 3",
                "max_steps: 100                       | write steps: 100",
                "per_device_train_batch_size: 4       | write batch_size: 4",
                "gradient_accumulation_steps: 2       | write gradient_accumulation: 2",
                "save_steps: 500                      | write checkpoint: {every: 500}",
                "save_total_limit: 2                  | write checkpoint: {keep: 2}",
                "eval_steps: 50                       | write eval_every: 50",
                "bf16: true                           | write precision: {mode: bf16}",
                "{fp16: false, bf16: true}            | write precision: {mode: bf16}",
                "fp16: true                           | write precision: {mode: fp16}",
                "warmup_steps: 10                     | write schedule: {warmup: 10}",
                "warmup_ratio: 0.1                    | write schedule: {warmup: 0.1}",
                "lr_scheduler_type: cosine            | write schedule: {type: cosine}",
                "weight_decay: 0.1                    | write optimizer: {weight_decay: 0.1}",
                "max_grad_norm: 1.0                   | write clip_grad_norm: 1.0",
                "data_seed: 4                         | write seed: 4",
                "adam_beta1: 0.8                      | write optimizer: {betas: [0.8, 0.999]}",
                "{adam_beta2: 0.95, adam_beta1: 0.8}  | write optimizer: {betas: [0.8, 0.95]}",
                "adam_epsilon: 1e-6                   | write optimizer: {eps: 1e-6}",
                "optim: adamw_torch                   | write optimizer: {type: adamw}",
                "optim: stable_adamw                  | write optimizer: {type: stableadamw}",
                "optimizer: {learning_rate: 1e-3}     | write optimizer: {lr: 1e-3}",
                "schedule: {num_warmup_steps: 7}      | write schedule: {warmup: 7}",
                "lr: 1e-3                             | write optimizer: {lr: 1e-3}",
                "output_dir: x                        | the folder of the run is -o RUN on the command line",
                "{max_steps: 9, learning_rate: 1, weight_decay: 0} | write steps: 9, optimizer: {lr: 1, weight_decay:"
                        + " 0}",
            })
    void names_of_other_libraries_are_answered_with_the_key_and_value_to_write(String line, String fix) {
        String yaml =
                line.startsWith("{") ? line.substring(1, line.length() - 1).replace(", ", "\n") : line;
        String all = "data: {train: a.npz}\nloss: {type: mse}\n" + yaml;
        assertEquals(fix, refused(all).fix());
        assertTrue(refused(all).where().contains("line 3"), refused(all).where());
    }

    @Test
    void a_key_can_be_given_another_value_from_outside() {
        Section file = YamlFile.parse(WHOLE, "c.yaml");
        List<String> set = List.of(
                "optimizer.lr=5e-5",
                "precision.mode=bf16",
                "freeze=[a, 'b: c']",
                "clip_grad_norm=null",
                "divergence={factor: 2.5}",
                "data.tokenizer=\"a\\u2028b\\n\\\"'\\t\"",
                "data.eos='it''s \"so\"\\'");
        Section changed = file.with(set, "--set");
        assertEquals("5e-5", changed.section("optimizer").text("lr").orElseThrow());
        // the text of the changed configuration reads back as the same
        assertEquals(
                changed.toString(), YamlFile.parse(changed.yaml(), "c.yaml").toString());
        TrainingConfig c = TrainingConfig.of(file.with(set.subList(0, 5), "--set"), Path.of("runs"));
        assertEquals(5e-5, c.optimizer().lr());
        assertEquals("bf16", c.precision().mode());
        assertEquals(
                List.of("a", "b: c"), c.freeze().stream().map(p -> p.pattern()).toList());
        assertTrue(c.clipGradNorm().isEmpty());
        assertEquals(2.5, c.divergence().factor());
        assertEquals(1000, c.steps());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "optimizer.larning=1 | unknown key 'optimizer.larning' | --set optimizer.larning=1, key"
                        + " optimizer.larning",
                "freez=a             | unknown key 'freez'             | --set freez=a, key freez",
                "optimizer.lr=fast   | 'fast' is not a number          | --set optimizer.lr=fast, key optimizer.lr",
                "optimizer.lr        | there is no key and value       | --set optimizer.lr",
                "=1                  | there is no key and value       | --set =1",
                "steps.x=1           | 'steps' is a value, not a       | --set steps.x=1",
                "optimizer=[         | not YAML                        | --set optimizer=[",
                "optimizer=adam      | expected keys and values        | --set optimizer=adam, key optimizer",
                "learning_rate=1     | has another name here           | --set learning_rate=1, key learning_rate",
            })
    void a_wrong_value_from_outside_is_refused_where_it_was_given(String set, String what, String where) {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> TrainingConfig.of(YamlFile.parse(WHOLE, "c.yaml").with(List.of(set), "--set"), Path.of("runs")));
        assertTrue(e.what().contains(what), e.what());
        assertEquals(where, e.where());
    }

    @Test
    void what_is_not_said_has_the_defaults_of_torch() {
        TrainingConfig c = parse(SMALL);
        assertEquals(
                "type=adamw, lr=0.001, momentum=0.0, dampening=0.0, nesterov=false, beta1=0.9, beta2=0.999, eps=1.0E-8,"
                        + " weight_decay=0.01, no_decay=[]",
                Settings.of(c).entrySet().stream()
                        .filter(e -> e.getKey().startsWith("optimizer."))
                        .map(e -> e.getKey().substring("optimizer.".length()) + "=" + e.getValue())
                        .collect(Collectors.joining(", ")));
        assertEquals(0, parse(SMALL + "optimizer: {type: adam}").optimizer().weightDecay());
        assertEquals(NonFinitePolicy.SKIP, c.onNonFinite());
        assertEquals(Ties.Restored.EMBEDDINGS, c.ties());
        assertTrue(c.clipGradNorm().isEmpty());
        assertTrue(c.data().shuffle());
    }

    @Test
    void a_key_of_another_mode_is_refused_with_the_mode_that_has_it() {
        assertEquals(
                "leave the key out, or choose mode: fp8",
                refused(SMALL + "precision: {mode: bf16, recipe: delayed}").fix());
        assertEquals(
                "leave the key out, or choose mode: O2",
                refused(SMALL + "precision: {keep_batchnorm_fp32: true}").fix());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "step: 3                              | unknown key 'step'                 | steps",
                "optimizer: {larning_rat: 1}          | unknown key 'optimizer.larning_rat' | valid",
                "optimizer: {weight_deacy: 1}         | unknown key 'optimizer.weight_deacy'  | weight_decay",
                "freze: [a]                           | unknown key 'freze'                | freeze",
            })
    void an_unknown_key_is_refused_with_the_nearest_and_its_line(String line, String what, String fix) {
        InvalidOptionException e = refused(SMALL + line);
        assertEquals(what, e.what());
        assertTrue(e.fix().contains(fix), e.fix());
        assertTrue(e.where().contains("line 4"), e.where());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "batch_size: 0                                   | out of range",
                "batch_size: many                                | not a whole number",
                "optimizer: {lr: -1}                             | out of range",
                "optimizer: {lr: .nan}                           | not a number",
                "optimizer: {betas: [0.9]}                       | 1 numbers",
                "optimizer: {betas: [0.9, 1.0]}                  | out of range",
                "optimizer: {type: sgd, betas: [0.9, 0.99]}      | sgd has no betas",
                "optimizer: {momentum: 0.9}                      | adamw has no momentum",
                "optimizer: [adamw]                              | keys and values",
                "schedule: {type: linear, warmup: 11}            | longer than the run",
                "schedule: {type: liner}                         | unknown value 'liner'",
                "freeze: [\"(\"]                                 | is not a regular expression",
                "eval_every: 5                                   | no evaluation data",
                "divergence: {factor: 1}                         | end the run",
                "checkpoint: {keep: 0}                           | out of range",
                "steps: 11                                       | is already given in line 3",
                "precision: {mode: fp64}                         | unknown value 'fp64'",
                "precision: {loss_scale: {type: torch}}          | needs no loss scaling",
                "precision: {mode: O1, master_weights: true}     | has no master_weights",
                "precision: {mode: O2, master_weights: false}    | kept at every level",
                "precision: {mode: bf16, autocast: tpu}          | unknown value 'tpu'",
                "precision: {mode: fp16, loss_scale: {type: x}}  | unknown value 'x'",
                "precision: {mode: fp16, loss_scale: {type: torch, growth_factor: 1}}  | out of range",
                "precision: {mode: bf16, recipe: delayed}        | mode bf16 has no recipe",
                "precision: {mode: O1, amax_history_len: 4}      | mode O1 has no amax_history_len",
                "precision: {mode: fp16, keep_batchnorm_fp32: true} | mode fp16 has no keep_batchnorm_fp32",
                "precision: {mode: fp32, autocast: cuda}         | unknown key 'precision.autocast'",
                "optimizer: {type: sgd, nesterov: true}          | needs momentum",
                "optimizer: {type: sgd, momentum: 0.9, dampening: 0.1, nesterov: true} | no dampening",
                "optimizer: {type: adam, nesterov: true}         | adam has no nesterov",
                "optimizer: {type: adamw, dampening: 0.1}        | adamw has no dampening",
                "ties: keep                                      | unknown value 'keep'",
                "precision: {mode: fp8, recipe: delay}           | unknown value 'delay'",
                "precision: {mode: fp8, fp8_format: E5M2}        | does not train",
                "precision: {mode: fp8, override_linear_precision: [true, false, false]} | not supported by delayed",
                "precision: {mode: fp8, high_precision: [gemm]}  | unknown product 'gemm'",
                "precision: {mode: fp8, recipe: current, margin: 1} | unknown key 'precision.margin'",
                "precision: {mode: fp8, recipe: block, x_block_scaling_dim: 2} | square blocks",
                "precision: {mode: fp8, layers: [{fp8: false}]}  | key match is missing",
                "precision: {mode: fp8, layers: [{match: a, fpx: 1}]} | unknown key",
                "fp8_health: {every: 10}                         | mode fp32 casts nothing to FP8",
                "precision: {mode: fp8, fp8_health: {every: 1}}  | unknown key 'precision.fp8_health'",
                "clip_grad_norm: 0                               | out of range",
                "seed: *x                                        | not supported",
            })
    void a_value_out_of_place_is_refused(String line, String what) {
        InvalidOptionException e = refused(SMALL + line);
        assertTrue(e.what().contains(what), e.what());
        assertTrue(e.where().contains("line 4") || line.startsWith("seed"), e.where());
    }

    @Test
    void fp8_is_measured_every_hundred_steps_unless_something_else_is_said() {
        assertEquals(100, parse(SMALL + "precision: {mode: fp8}").fp8Health().every());
        assertEquals(
                0,
                parse(SMALL + "fp8_health: {every: 0}\nprecision: {mode: fp8}")
                        .fp8Health()
                        .every());
        assertEquals(0, parse(SMALL + "precision: {mode: bf16}").fp8Health().every());
    }

    @Test
    void contradictions_between_data_and_keys_are_refused() {
        String rest = "\nloss: {type: causal-lm}\nsteps: 1";
        assertTrue(refused("data: {train: a.bin}" + rest).what().contains("stream of tokens"));
        assertTrue(refused("data: {train: a.npz, sequence: 8}" + rest).what().contains("only .bin"));
        assertTrue(refused("data: {train: a.npz}\nsteps: 1\nloss: {type: mse, ignore_index: 1}")
                .what()
                .contains("ignore labels"));
    }

    private static String distilled(String type, String keys) {
        return "data: {train: a.npz}\nsteps: 1\nloss: {type: " + type + ", distillation: {" + keys + "}}";
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "mse       | teacher: t.onnx, temperature: 2     | distillation.temperature | only distributions over"
                        + " classes",
                "cosine    | teacher: t.onnx, temperature: 1     | distillation.temperature | only distributions over"
                        + " classes",
                "causal-lm | teacher: t.onnx, temperature: 0     | distillation.temperature | cannot be divided by 0",
                "causal-lm | teacher: t.onnx, temperature: -1    | distillation.temperature | out of range",
                "causal-lm | teacher: t.onnx, weight: 0          | distillation.weight      | teacher has no effect",
                "causal-lm | teacher: t.onnx, weight: 1.01       | distillation.weight      | out of range",
                "mse       | weight: 1                           | distillation.teacher     | missing",
                "mse       | teacher: t.onnx, wieght: 1          | distillation.wieght      | unknown key",
            })
    void distillation_that_means_nothing_is_refused(String type, String keys, String key, String what) {
        InvalidOptionException e = refused(distilled(type, keys));
        assertTrue(e.what().contains(what), e.what());
        assertTrue(e.where().endsWith("line 3, key loss." + key), e.where());
    }

    @Test
    void labels_are_read_where_they_have_a_say() {
        assertTrue(parse(SMALL).loss().readsLabels());
        assertFalse(parse(distilled("mse", "teacher: t.onnx")).loss().readsLabels());
        assertTrue(
                parse(distilled("mse", "teacher: t.onnx, weight: 0.5")).loss().readsLabels());
        assertFalse(parse(distilled("causal-lm", "teacher: t.onnx")).loss().readsLabels());
        assertTrue(parse(distilled("causal-lm, labels: labels", "teacher: t.onnx, temperature: 2"))
                .loss()
                .readsLabels());
        assertFalse(parse(distilled("cosine, labels: labels", "teacher: t.onnx"))
                .loss()
                .readsLabels());
    }

    @Test
    void a_needed_key_that_is_mistyped_is_found_under_what_was_typed() {
        InvalidOptionException e = refused("steps: 1\ndata: {trian: a.npz}");
        assertTrue(e.what().contains("train is missing"), e.what());
        assertTrue(e.where().contains("line 2, key data.trian"), e.where());
        assertTrue(e.fix().contains("did you mean train"), e.fix());
    }

    @Test
    void a_schedule_has_the_names_of_its_library() {
        ScheduleConfig cosine = parse(SMALL + "schedule: {type: cosine_with_min_lr, min_lr_rate: 0.1, warmup: 2}")
                .schedule();
        assertEquals(ScheduleType.COSINE_WITH_MIN_LR, cosine.type());
        assertEquals(Map.of("min_lr_rate", "0.1"), cosine.options());
        assertEquals(1e-4, cosine.schedule(1e-3, 10).rate(10), 1e-18);
        ScheduleConfig warmed =
                parse(SMALL + "schedule: {type: WarmupLR, warmup_num_steps: 4}").schedule();
        assertEquals(ScheduleType.WARMUP_LR, warmed.type());
        assertEquals(
                ScheduleType.CONSTANT,
                parse(SMALL + "schedule: {type: constant_with_warmup, warmup: 3}")
                        .schedule()
                        .type());
    }

    @Test
    void settings_have_the_options_of_a_schedule_only_where_they_are_written() {
        Map<String, String> plain = Settings.of(parse(SMALL + "schedule: {type: linear, warmup: 2}"));
        assertEquals("linear", plain.get("schedule.type"));
        assertTrue(plain.keySet().stream().noneMatch(k -> k.startsWith("schedule.options")), plain.toString());
        Map<String, String> restarts =
                Settings.of(parse(SMALL + "schedule: {type: cosine_with_restarts, num_cycles: 3}"));
        assertEquals("3", restarts.get("schedule.options.num_cycles"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "type: linear, num_cycles: 2            | linear has no num_cycles         | cosine_with_restarts",
                "type: reduce_lr_on_plateau             | none before the end              | eval_every",
                "type: greedy, factor: 1.0              | 1.0 is out of range              | below 1",
                "type: WarmupLR, warmup: 5              | WarmupLR has no warmup           | warmup_num_steps",
                "type: LRRangeTest, warmup: 5           | LRRangeTest has no warmup        | another type",
                "type: cosine_with_min_lr               | neither min_lr nor min_lr_rate   | min_lr_rate",
                "type: polynomial, lr_end: 1            | lr_end 1.0 is not below          | smaller lr_end",
                "type: OneCycle, cycle_min_lr: 1.0e-4   | cycle_max_lr is missing          | cycle_max_lr",
                "type: warmup_stable_decay              | num_decay_steps is missing       | num_decay_steps",
                "type: cosine, num_cycles: -1           | out of range                     | of at least 0",
                "type: WarmupLR, warmup_type: square    | unknown value 'square'           | linear",
                "type: cosin                            | unknown value 'cosin'            | cosine",
            })
    void a_schedule_that_cannot_be_is_refused(String schedule, String what, String fix) {
        InvalidOptionException e = refused(SMALL + "schedule: {" + schedule + "}");
        assertTrue(e.what().contains(what), e.what());
        assertTrue(e.fix().contains(fix), e.fix());
    }

    @Test
    void each_optimizer_has_the_defaults_of_its_library() {
        assertEquals(
                new Optimizer.Lion(0.9, 0.99, 0),
                parse(SMALL + "optimizer: {type: lion}").optimizer().optimizer());
        assertEquals(1e-4, parse(SMALL + "optimizer: {type: lion}").optimizer().lr());
        assertEquals(
                new Optimizer.Lamb(0.9, 0.999, 1e-6, 0.01, LambRule.APEX),
                parse(SMALL + "optimizer: {type: lamb}").optimizer().optimizer());
        assertEquals(
                new Optimizer.Lamb(0.9, 0.999, 1e-8, 0, LambRule.DEEPSPEED),
                parse(SMALL + "optimizer: {type: lamb, formula: deepspeed}")
                        .optimizer()
                        .optimizer());
        assertEquals(
                new Optimizer.Adafactor(AdafactorRule.TRANSFORMERS, 0),
                parse(SMALL + "optimizer: {type: adafactor}").optimizer().optimizer());
        OptimizerConfig torch =
                parse(SMALL + "optimizer: {type: adafactor, formula: torch}").optimizer();
        assertEquals(new Optimizer.Adafactor(AdafactorRule.TORCH, 0), torch.optimizer());
        assertEquals(1e-2, torch.lr());
        Optimizer.Adam others = new Optimizer.Adam(0.9, 0.95, 1e-10, 0, Optimizer.Variant.ADAMW);
        assertEquals(
                new Optimizer.Muon(MuonRule.DEFAULT, 0.1, new Optimizer.Scaled(others, 0.3), List.of()),
                parse(SMALL + "optimizer: {type: muon}").optimizer().optimizer());
    }

    @Test
    void a_relative_step_gives_the_rate_that_metrics_show() {
        Optimizer relative = parse(SMALL + "optimizer: {type: adafactor, relative_step: true, warmup_init: true}")
                .optimizer()
                .optimizer();
        assertEquals(7e-6, relative.rate(1e-3, 7), 1e-18);
        assertEquals(1e-3, parse(SMALL).optimizer().optimizer().rate(1e-3, 7));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "type: lion, eps: 1.0e-8                        | lion has no eps            | leave the key out",
                "type: adamw, clip_threshold: 1                 | adamw has no clip_threshold | another type",
                "type: adafactor, betas: [0.9, 0.99]            | adafactor has no betas     | another type",
                "type: adafactor, formula: torch, beta1: 0.9    | torch's Adafactor has no beta1 | formula:"
                        + " transformers",
                "type: adafactor, relative_step: true, lr: 0.1  | lr has no effect           | leave lr out",
                "type: adafactor, warmup_init: true             | warmup_init needs relative_step | relative_step",
                "type: lamb, min_coeff: 2, max_coeff: 1         | below min_coeff            | exchange",
                "type: muon, ns_steps: 100                      | 100 is out of range        | from 0 to 99",
                "type: muon, adjust_lr: half                    | unknown value 'half'       | original",
                "type: muon, lr: 0                              | above 0                    | lr",
                "type: muon, states: {engine: bf16}             | not kept in codes          | adamw",
                "type: adafactor, states: {engine: torchao}     | not kept in codes          | lamb",
                "type: muon, adamw: {learning: 1}               | unknown key 'optimizer.adamw.learning' | lr",
            })
    void an_optimizer_that_cannot_be_is_refused(String optimizer, String what, String fix) {
        InvalidOptionException e = refused(SMALL + "optimizer: {" + optimizer + "}");
        assertTrue(e.what().contains(what), e.what());
        assertTrue(e.fix().contains(fix), e.fix());
    }

    @Test
    void a_schedule_without_effect_is_refused() {
        InvalidOptionException e =
                refused(SMALL + "optimizer: {type: adafactor, relative_step: true}\nschedule: {type: linear}");
        assertTrue(e.what().contains("a schedule has no effect"), e.what());
        InvalidOptionException cycle = refused(
                SMALL + "optimizer: {type: lion}\nschedule: {type: OneCycle, cycle_min_lr: 1, cycle_max_lr: 2}");
        assertTrue(cycle.fix().contains("cycle_momentum: false"), cycle.fix());
    }

    @Test
    void names_of_optimizers_and_schedules_in_other_libraries_are_answered_with_what_to_write() {
        assertEquals(
                "write optimizer: {type: lion}",
                refused(SMALL + "optim: paged_lion_8bit").fix());
        assertEquals(
                "write optimizer: {type: adafactor, relative_step: true}",
                refused(SMALL + "optim: adafactor\nrelative_step: true").fix());
        assertEquals(
                "write schedule: {type: cosine_with_restarts}; its values stand in schedule: {...} by their names, as"
                        + " num_cycles: 2",
                refused(SMALL + "lr_scheduler_type: cosine_with_restarts\nlr_scheduler_kwargs: {power: 2}")
                        .fix());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "train: a.jsonl, pack: true                             | sequence   | packed texts are a stream of"
                        + " tokens",
                "train: a.jsonl, pack: true, sequence: 8, max_length: 8 | max_length | neither cut nor padded",
                "train: a.jsonl, pack: true, sequence: 8, pad_multiple: 8 | pad_multiple | neither cut nor padded",
                "train: a.jsonl, pack: documents                        | sequence   | packed texts are a stream of"
                        + " tokens",
                "train: a.jsonl, pack: yes                              | pack       | unknown value 'yes'",
                "train: a.jsonl, date: today                            | date       | 'today' is not a date",
                "train: a.npz, train_on: all                            | train_on   | only .jsonl and .parquet files"
                        + " have",
                "train: a.jsonl, sequence: 8                            | sequence   | and packed texts are cut",
                "train: a.npz, pack: true, sequence: 8                  | pack       | only .jsonl and .parquet files"
                        + " have a pack",
            })
    void packing_that_contradicts_other_keys_is_refused(String data, String key, String what) {
        InvalidOptionException e = refused("data: {" + data + "}\nloss: {type: causal-lm}\nsteps: 1");
        assertTrue(e.what().contains(what), e.what());
        assertTrue(e.where().contains("key data." + key), e.where());
    }

    @Test
    void packed_texts_have_a_length_and_perhaps_an_end() {
        DataConfig data = parse("data: {train: a.jsonl, pack: true, sequence: 64, eos: '</s>'}\n"
                        + "loss: {type: causal-lm}\nsteps: 1")
                .data();
        assertTrue(data.pack());
        assertEquals(64, data.sequence());
        assertEquals(Optional.of("</s>"), data.eos());
    }

    @Test
    void keys_for_another_kind_of_data_are_refused() {
        String rest = "}\nloss: {type: mse}\nsteps: 1";
        assertEquals(
                "only .jsonl and .parquet files have a max_length",
                refused("data: {train: a.npz, max_length: 8" + rest).what());
        assertEquals(
                "only .bin files have a token_type",
                refused("data: {train: a.npz, token_type: uint32" + rest).what());
        assertEquals(
                8,
                parse("data: {train: a.npz, eval: b.jsonl, max_length: 8" + rest)
                        .data()
                        .maxLength());
    }

    @Test
    void the_limits_of_a_number_are_said_as_one_writes_them() {
        String start = "data: {train: a.npz}\nloss: {type: mse}\nsteps: 1\n";
        assertEquals(
                "give a number above 0", refused(start + "clip_grad_norm: 0").fix());
        assertEquals(
                "give a number of at least 0",
                refused(start + "optimizer: {lr: -1}").fix());
        assertEquals(
                "give a number of at least 0, below 1",
                refused(start + "optimizer: {type: sgd, momentum: 1}").fix());
    }

    @Test
    void what_must_be_said_is_asked_for() {
        assertEquals("add train: ... to data", refused("steps: 1").fix());
        assertTrue(refused("steps: 1").where().contains("data.train"));
        assertTrue(refused("data: {train: a.npz}\nsteps: 1").where().contains("loss.type"));
        assertTrue(refused("data: {train: a.npz}\nloss: {type: mse}").where().contains("steps"));
        assertTrue(refused("").what().contains("no keys and values"));
        assertTrue(refused("- a").what().contains("no keys and values"));
    }

    @Test
    void what_is_no_yaml_is_refused_with_its_line() {
        InvalidOptionException e = refused("data: {train: a.npz\nsteps: 1\n");
        assertTrue(e.what().startsWith("not YAML"), e.what());
        assertTrue(e.where().contains("line "), e.where());
    }

    @Test
    void settings_list_every_value_with_the_defaults() {
        Map<String, String> settings = Settings.of(parse(WHOLE));
        assertEquals("1.0E-4", settings.get("optimizer.lr"));
        assertEquals("causal_lm", settings.get("loss.type"));
        assertEquals("[embeddings.*]", settings.get("freeze"));
        assertEquals("1.0", settings.get("clip_grad_norm"));
        assertEquals("skip", settings.get("on_non_finite"));
    }
}
