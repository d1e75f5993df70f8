package dev.octet.trainer.qat;

import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.op.qat.GridQuantize.Form;
import dev.octet.trainer.op.qat.GridQuantize.Offset;
import dev.octet.trainer.op.qat.GridQuantize.Parameter;
import dev.octet.trainer.op.qat.StepRule;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import dev.octet.trainer.qat.QuantizerSettings.Levels;
import dev.octet.trainer.qat.QuantizerSettings.Variant;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;

/**
 * What a method comes to for an operand.
 *
 * @param rule the derivative of its rounding
 * @param form what the operator reads
 * @param stored the constants that it reads
 * @param learned those of them that training changes
 */
record Places(StepRule rule, Form form, List<Place> stored, Set<Place> learned) {
    static Places of(QuantizerSettings s, LinearTensor tensor) {
        boolean two = s.levels() == Levels.TWO;
        boolean input = tensor == LinearTensor.INPUT;
        Parameter amax = s.levels() == Levels.POWER_OF_TWO ? Parameter.AMAX_POWER_OF_TWO : Parameter.AMAX;
        List<Place> stored = new ArrayList<>();
        Set<Place> learned = EnumSet.noneOf(Place.class);
        StepRule rule;
        Form form;
        switch (s.method()) {
            case LSQ -> {
                stored.add(Place.SCALE);
                learned.add(Place.SCALE);
                rule = StepRule.LSQ;
                form = new Form(Parameter.STEP, Offset.NONE, false, two);
            }
            case LSQ_PLUS -> {
                stored.add(Place.SCALE);
                if (input) {
                    stored.add(Place.OFFSET);
                }
                learned.addAll(stored);
                rule = StepRule.LSQ;
                form = new Form(Parameter.STEP, input ? Offset.ADDED : Offset.NONE, false, two);
            }
            case PACT -> {
                stored.add(Place.AMAX);
                learned.add(Place.AMAX);
                rule = StepRule.PACT;
                form = new Form(Parameter.AMAX, Offset.NONE, false, false);
            }
            case DOREFA -> {
                stored.add(input ? Place.AMAX : Place.SCALE);
                rule = input ? StepRule.PACT : StepRule.PASSED;
                form = new Form(input ? Parameter.AMAX : Parameter.STEP, Offset.NONE, false, false);
            }
            case FIXED -> {
                stored.add(Place.AMAX);
                rule = s.levels() == Levels.POWER_OF_TWO ? StepRule.PASSED : StepRule.CLIPPED;
                form = new Form(amax, Offset.NONE, false, two);
            }
            case DYNAMIC -> {
                boolean through = s.variant() == Variant.THROUGH_SCALE;
                rule = through
                        ? StepRule.SCALED
                        : s.levels() == Levels.POWER_OF_TWO ? StepRule.PASSED : StepRule.CLIPPED;
                form = s.variant() == Variant.ZERO_POINT
                        ? new Form(Parameter.MAX, Offset.MIN, false, false)
                        : new Form(amax, Offset.NONE, false, two);
            }
            case RANGE -> {
                stored.addAll(List.of(Place.SCALE, Place.ZERO_POINT));
                learned.addAll(stored);
                rule = StepRule.RANGE;
                form = new Form(Parameter.STEP, Offset.ZERO_POINT, false, false);
            }
            case MODELOPT_LSQ -> {
                boolean tied = s.variant() == Variant.TIED;
                stored.add(Place.AMAX);
                learned.add(Place.AMAX);
                if (!tied) {
                    stored.add(Place.PRE_AMAX);
                }
                if (s.variant() == Variant.DUAL) {
                    learned.add(Place.PRE_AMAX);
                }
                rule = StepRule.SCALED;
                form = new Form(Parameter.AMAX, Offset.NONE, !tied, two);
            }
            default -> throw new IllegalStateException(s.method().label());
        }
        if (two) {
            stored.add(Place.GLOBAL_SCALE);
        }
        return new Places(rule, form, List.copyOf(stored), Set.copyOf(learned));
    }
}
