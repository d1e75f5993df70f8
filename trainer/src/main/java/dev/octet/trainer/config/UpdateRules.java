package dev.octet.trainer.config;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.rule.AdafactorRule;
import dev.octet.trainer.rule.AdagradRule;
import dev.octet.trainer.rule.LambRule;
import dev.octet.trainer.rule.MuonRule;
import dev.octet.trainer.rule.UpdateRule;
import dev.octet.trainer.yaml.Section;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;

/** Reads what only one type of optimizer has, under the names of its library. */
final class UpdateRules {
    private static final String FORMULA = "formula";
    private static final String RELATIVE = "relative_step";

    /** Largest number below 1. */
    private static final double BELOW_ONE = Math.nextDown(1.0);

    private UpdateRules() {}

    static Optional<UpdateRule> read(Section s, OptimizerConfig.Type type) {
        return switch (type) {
            case SGD, ADAM, ADAMW, STABLEADAMW, LION -> Optional.empty();
            case ADAGRAD -> Optional.of(new AdagradRule(s.number("lr_decay", 0, 0, Double.MAX_VALUE)));
            case LAMB -> Optional.of(lamb(s));
            case ADAFACTOR -> Optional.of(adafactor(s));
            case MUON -> Optional.of(muon(s));
        };
    }

    private static LambRule lamb(Section s) {
        LambRule.Formula formula = s.choice(
                FORMULA,
                Map.of("apex", LambRule.Formula.APEX, "deepspeed", LambRule.Formula.DEEPSPEED),
                LambRule.Formula.APEX);
        LambRule defaults = switch (formula) {
            case APEX -> LambRule.APEX;
            case DEEPSPEED -> LambRule.DEEPSPEED;
        };
        double least = s.number("min_coeff", defaults.minCoeff(), 0, Double.MAX_VALUE);
        double most = s.optionalNumber("max_coeff", 0, Double.MAX_VALUE).orElse(defaults.maxCoeff());
        if (most < least) {
            throw s.error("max_coeff", "max_coeff " + most + " is below min_coeff " + least, "exchange the two");
        }
        return new LambRule(
                formula, s.flag("bias_correction", true), least, most, s.flag("always_adapt", defaults.alwaysAdapts()));
    }

    private static AdafactorRule adafactor(Section s) {
        AdafactorRule.Formula formula = s.choice(
                FORMULA,
                Map.of(
                        "transformers", AdafactorRule.Formula.TRANSFORMERS,
                        "torch", AdafactorRule.Formula.TORCH),
                AdafactorRule.Formula.TRANSFORMERS);
        boolean torch = formula == AdafactorRule.Formula.TORCH;
        AdafactorRule defaults = torch ? AdafactorRule.TORCH : AdafactorRule.TRANSFORMERS;
        for (String key : List.of("beta1", "scale_parameter", RELATIVE, "warmup_init")) {
            if (torch && s.has(key)) {
                throw s.error(
                        key,
                        "torch's Adafactor has no " + key
                                + ": it scales by the parameter and bounds a relative step by lr, always",
                        "leave the key out, or choose formula: transformers");
            }
        }
        boolean relative = s.flag(RELATIVE, defaults.relativeStep());
        boolean warms = s.flag("warmup_init", false);
        if (relative && !torch && s.has("lr")) {
            throw s.error(
                    "lr",
                    "with relative_step the learning rate follows from the step, and lr has no effect",
                    "leave lr out, or set relative_step: false");
        }
        if (warms && !relative) {
            throw s.error("warmup_init", "warmup_init needs relative_step", "add relative_step: true");
        }
        List<Double> eps = s.numbers("eps", List.of(defaults.eps1(), defaults.eps2()), 2, 0, Double.MAX_VALUE);
        return new AdafactorRule(
                formula,
                eps.getFirst(),
                eps.getLast(),
                s.number("clip_threshold", defaults.clip(), Double.MIN_VALUE, Double.MAX_VALUE),
                s.optionalNumber("decay_rate", -Double.MAX_VALUE, 0).orElse(defaults.decayRate()),
                s.optionalNumber("beta1", 0, BELOW_ONE).map(OptionalDouble::of).orElse(OptionalDouble.empty()),
                s.flag("scale_parameter", defaults.scaleParameter()),
                relative,
                warms);
    }

    private static MuonRule muon(Section s) {
        MuonRule defaults = MuonRule.DEFAULT;
        List<Double> coefficients = s.numbers(
                "ns_coefficients",
                List.of(defaults.a(), defaults.b(), defaults.c()),
                3,
                -Double.MAX_VALUE,
                Double.MAX_VALUE);
        return new MuonRule(
                s.number("momentum", defaults.momentum(), 0, BELOW_ONE),
                s.flag("nesterov", defaults.nesterov()),
                coefficients.get(0),
                coefficients.get(1),
                coefficients.get(2),
                (int) s.whole("ns_steps", defaults.steps(), 0, 99),
                s.number("eps", defaults.eps(), 0, Double.MAX_VALUE),
                s.choice(
                        "adjust_lr",
                        Map.of(
                                "original", MuonRule.Adjust.ORIGINAL,
                                "match_rms_adamw", MuonRule.Adjust.MATCH_RMS_ADAMW,
                                "none", MuonRule.Adjust.NONE),
                        defaults.adjust()),
                s.choice("ns_dtype", Map.of("bf16", DType.BF16, "fp32", DType.F32), defaults.type()));
    }
}
