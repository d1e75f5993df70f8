package dev.octet.trainer.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.state.BlockCodes;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForms;
import dev.octet.trainer.yaml.YamlFile;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StatesConfigTest {
    private static TrainingConfig config(String optimizer) {
        String yaml = "data: {train: a.npz}\nloss: {type: mse}\nsteps: 1\noptimizer: " + optimizer + "\n";
        return TrainingConfig.of(YamlFile.parse(yaml, "c.yaml"), Path.of(""));
    }

    private static StatesConfig states(String keys) {
        return config("{type: adamw, states: {" + keys + "}}").optimizer().states();
    }

    private static StateForms forms(String keys) {
        return states(keys).forms(Optimizer.Adam.ADAMW);
    }

    @Test
    void settings_of_runs_without_the_key_are_as_they_were() {
        Map<String, String> settings = Settings.of(config("{type: adamw}"));
        assertTrue(settings.keySet().stream().noneMatch(k -> k.contains("states")), settings.toString());
        assertEquals(settings, Settings.of(config("{type: adamw, states: {engine: fp32}}")));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "engine: msamp",
                "engine: msamp, opt_level: O1, masters: fp32, compat: msamp",
                "engine: te, master_weight_dtype: fp16, exp_avg_dtype: fp8, exp_avg_sq_dtype: bf16",
                "engine: te, store_param_remainders: true",
                "engine: torchao, format: int4, bf16_stochastic_round: true",
                "engine: bf16, masters: bf16, rounding: nearest"
            })
    void an_engine_is_read_back_from_the_settings_of_a_run(String keys) {
        StatesConfig states = states(keys);
        Map<String, String> settings = Settings.of(config("{type: adamw, states: {" + keys + "}}"));
        assertEquals(states, StatesConfig.of(settings));
        assertEquals("engine: " + states.engineName(), keys.split(",", -1)[0]);
    }

    @Test
    void bytes_a_parameter_are_those_of_the_libraries() {
        Shape shape = Shape.of(1024, 1024);
        StateForms msamp = forms("engine: msamp");
        assertEquals(2, msamp.parameter("w", shape).bytes(1 << 20) >> 20);
        assertEquals(1, msamp.memory("exp_avg", shape).bytes(1 << 20) >> 20);
        assertEquals(2, msamp.memory("exp_avg_sq", shape).bytes(1 << 20) >> 20);
        StateForms torchao = forms("engine: torchao");
        assertEquals((1 << 20) + 4 * 4096, torchao.memory("exp_avg", shape).bytes(1 << 20));
        assertEquals(new StateForm.Blocked(BlockCodes.UINT8), torchao.memory("exp_avg_sq", shape));
        assertEquals(
                (1 << 19) + 4 * 8192,
                forms("engine: torchao, format: int4").memory("exp_avg", shape).bytes(1 << 20));
        assertEquals(
                4,
                forms("engine: te, store_param_remainders: true")
                                .parameter("w", shape)
                                .bytes(1 << 20)
                        >> 20);
        assertEquals(
                new StateForm.Fused(DType.F16),
                forms("engine: te, master_weight_dtype: fp16").parameter("w", shape));
    }

    @Test
    void tensors_that_blocks_cannot_keep_stay_in_F32() {
        StateForms torchao = forms("engine: torchao");
        assertEquals(StateForm.Plain.F32, torchao.memory("exp_avg", Shape.of(4095)));
        assertEquals(StateForm.Plain.F32, torchao.memory("exp_avg", Shape.of(4096 + 128)));
        assertEquals(new StateForm.Blocked(BlockCodes.INT8), torchao.memory("exp_avg", Shape.of(64, 64)));
        StateForms four = forms("engine: torchao, format: int4");
        assertEquals(new StateForm.Blocked(BlockCodes.INT4), four.memory("exp_avg", Shape.of(4096 + 128)));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "type: adamw, states: {engine: te, opt_level: O1}|the engine te has no opt_level|leave the key out;"
                        + " keys of te: master_weight_dtype, store_param_remainders, exp_avg_dtype, exp_avg_sq_dtype",
                "type: adamw, states: {rounding: nearest}"
                        + "|the engine fp32 has no rounding|leave the key out, or choose another engine",
                "type: sgd, states: {engine: msamp}"
                        + "|MS-AMP has Adam and AdamW, not sgd|use engine: torchao or bf16, or type: adamw",
                "type: stableadamw, states: {engine: te}"
                        + "|Transformer Engine's FusedAdam is Adam and AdamW, not stableadamw"
                        + "|use engine: torchao or bf16, or type: adamw",
                "type: adamw, states: {engine: te, store_param_remainders: true, master_weight_dtype: fp16}|remainders"
                        + " complete BF16 to F32, but master_weight_dtype is fp16|leave one of the two keys out",
                "type: adamw, states: {engine: msamp, opt_level: O3}"
                        + "|O3 is a matter of the products, too: it keeps the weights that they read in E4M3"
                        + "|use precision: {mode: msamp, opt_level: O3}, or opt_level: O2 here"
            })
    void contradictions_are_refused(String optimizer, String what, String fix) {
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> config("{" + optimizer + "}"));
        assertEquals(what, e.what());
        assertEquals(fix, e.fix());
        assertTrue(e.where().contains("c.yaml"), e.where());
    }

    @Test
    void every_optimizer_keeps_its_buffers_in_the_engines_that_are_not_a_librarys() {
        Optimizer sgd = Optimizer.Sgd.of(0.9);
        assertEquals(
                new StateForm.Blocked(BlockCodes.INT8),
                states("engine: torchao").forms(sgd).memory("momentum_buffer", Shape.of(4096)));
        assertEquals(
                new StateForm.Stochastic(),
                states("engine: bf16").forms(sgd).memory("momentum_buffer", Shape.of(4096)));
        assertEquals(
                StateForms.Arithmetic.TORCH,
                states("engine: torchao").forms(sgd).arithmetic());
    }
}
