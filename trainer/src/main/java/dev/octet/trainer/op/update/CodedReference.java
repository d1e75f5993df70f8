package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.ReferenceState;
import dev.octet.trainer.state.StateForm;
import java.util.ArrayList;
import java.util.List;

/** The reference twins of updates in any form: formulas in F64; what is written has the form's rounding. */
final class CodedReference {
    private CodedReference() {}

    static void step(CodedStep op, Frame<double[]> frame) {
        StepScalars s = op.scalars(i -> frame.input(i)[0]);
        List<double[]> read = new ArrayList<>();
        List<StateForm> kept = op.kept();
        for (int k = 0; k < kept.size(); k++) {
            read.add(ReferenceState.read(kept.get(k), op.tensor(), frame::input, op.input(k)));
        }
        double[] g = ReferenceState.read(op.g(), op.tensor(), frame::input, op.gradientInput());
        if (!s.leftOut()) {
            ElementStep.ElementFormula formula = op.rule().formula(s);
            double[] x = new double[kept.size() + 1];
            for (int i = 0; i < g.length; i++) {
                x[0] = read.get(0)[i];
                x[1] = g[i];
                for (int k = 1; k < kept.size(); k++) {
                    x[k + 1] = read.get(k)[i];
                }
                formula.run(x);
                read.get(0)[i] = x[0];
                for (int k = 1; k < kept.size(); k++) {
                    read.get(k)[i] = x[k + 1];
                }
            }
            for (int k = 0; k < kept.size(); k++) {
                ReferenceState.write(
                        kept.get(k), op.tensor(), frame::output, op.output(k), op.key(k, s.t()), read.get(k));
            }
        }
    }

    static void squareSum(CodedSquareSum op, Frame<double[]> frame) {
        double sum = 0;
        for (double g : ReferenceState.read(op.form(), op.g(), frame::input, 0)) {
            sum += g * g;
        }
        frame.output(0)[0] = sum;
    }
}
