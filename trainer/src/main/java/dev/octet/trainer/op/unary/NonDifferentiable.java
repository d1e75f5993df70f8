package dev.octet.trainer.op.unary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OpReader;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/** Functions whose derivative is 0 or that give truth values: no gradient flows through them. */
public record NonDifferentiable(Kind kind, OperandType x) implements UnaryOp {
    /** Which function; named as the ONNX operators. */
    public enum Kind {
        Ceil {
            @Override
            double of(double x) {
                return Math.ceil(x);
            }
        },
        Floor {
            @Override
            double of(double x) {
                return Math.floor(x);
            }
        },
        IsInf {
            @Override
            double of(double x) {
                return Double.isInfinite(x) ? 1 : 0;
            }
        },
        IsNaN {
            @Override
            double of(double x) {
                return Double.isNaN(x) ? 1 : 0;
            }
        },
        Not {
            @Override
            double of(double x) {
                return x == 0 ? 1 : 0;
            }
        },
        Round {
            @Override
            double of(double x) {
                return Math.rint(x);
            }
        },
        Sign {
            @Override
            double of(double x) {
                return Math.signum(x);
            }
        };

        abstract double of(double x);

        /** What reads the ONNX operator of this name. */
        public OpReader<NonDifferentiable> reader() {
            return source -> new NonDifferentiable(this, source.input(0));
        }
    }

    @Override
    public String type() {
        return kind.name();
    }

    @Override
    public List<OperandType> outputs() {
        return switch (kind) {
            case IsInf, IsNaN, Not -> List.of(x.as(DType.BOOL));
            case Ceil, Floor, Round, Sign -> List.of(x);
        };
    }

    @Override
    public boolean isDifferentiable(int i) {
        return false;
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.NOTHING;
    }

    @Override
    public double value(double x) {
        return kind.of(x);
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = (float) kind.of(x[i]);
        }
    }

    @Override
    public double gradient(double g, double kept) {
        throw new IllegalStateException(kind + " has no gradient");
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        throw new IllegalStateException(kind + " has no gradient");
    }
}
