package dev.octet.trainer.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.yaml.YamlFile;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
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
        assertEquals(ScheduleConfig.Type.LINEAR, c.schedule().type());
        assertEquals(100, c.schedule().warmup());
        assertEquals(1.0, c.clipGradNorm().orElseThrow());
        assertEquals("embeddings.*", c.freeze().getFirst().pattern());
        assertEquals(3, c.checkpoint().keep());
        assertEquals(100, c.evalEvery());
    }

    @Test
    void what_is_not_said_has_the_defaults_of_torch() {
        TrainingConfig c = parse(SMALL);
        assertEquals(
                "OptimizerConfig[type=ADAMW, lr=0.001, momentum=0.0, dampening=0.0, nesterov=false, beta1=0.9,"
                        + " beta2=0.999, eps=1.0E-8, weightDecay=0.01, noDecay=[]]",
                c.optimizer().toString());
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
                "optimizer: {learning_rate: 1}        | unknown key 'optimizer.learning_rate' | valid",
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
                "freeze: [\"(\"]                                 | not a regular expression",
                "eval_every: 5                                   | no data to evaluate on",
                "divergence: {factor: 1}                         | end the run",
                "checkpoint: {keep: 0}                           | out of range",
                "steps: 11                                       | given before, in line 3",
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
                "optimizer: {type: sgd, nesterov: true}          | needs a momentum",
                "optimizer: {type: sgd, momentum: 0.9, dampening: 0.1, nesterov: true} | no dampening",
                "optimizer: {type: adam, nesterov: true}         | adam has no nesterov",
                "optimizer: {type: adamw, dampening: 0.1}        | adamw has no dampening",
                "ties: keep                                      | unknown value 'keep'",
                "precision: {mode: fp8, recipe: delay}           | unknown value 'delay'",
                "precision: {mode: fp8, fp8_format: E5M2}        | does not train",
                "precision: {mode: fp8, override_linear_precision: [true, false, false]} | not for delayed",
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
                "causal-lm | teacher: t.onnx, weight: 0          | distillation.weight      | nothing is learnt",
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

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "train: a.jsonl, pack: true                             | sequence   | packed texts are a stream of"
                        + " tokens",
                "train: a.jsonl, pack: true, sequence: 8, max_length: 8 | max_length | neither cut nor padded",
                "train: a.jsonl, pack: true, sequence: 8, pad_multiple: 8 | pad_multiple | neither cut nor padded",
                "train: a.jsonl, eos: '</s>'                            | eos        | only packed texts are joined",
                "train: a.jsonl, sequence: 8                            | sequence   | and packed texts are cut",
                "train: a.npz, pack: true, sequence: 8                  | pack       | only .jsonl files have a pack",
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
                "only .jsonl files have a max_length",
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
