package dev.octet.trainer.op.comparison;

import dev.octet.trainer.kernel.OpReader;
import dev.octet.trainer.op.binary.BinaryOp;
import dev.octet.trainer.op.binary.Pair;

/** A test of two operands, element by element with broadcasting; the result is BOOL and has no gradient. Truth values are 0 and 1. */
public record Comparison(Kind kind, Pair pair) implements BinaryOp {
    /** Which test; named as the ONNX operators. */
    public enum Kind {
        And {
            @Override
            boolean test(double a, double b) {
                return a != 0 && b != 0;
            }
        },
        Equal {
            @Override
            boolean test(double a, double b) {
                return a == b;
            }
        },
        Greater {
            @Override
            boolean test(double a, double b) {
                return a > b;
            }
        },
        GreaterOrEqual {
            @Override
            boolean test(double a, double b) {
                return a >= b;
            }
        },
        Less {
            @Override
            boolean test(double a, double b) {
                return a < b;
            }
        },
        LessOrEqual {
            @Override
            boolean test(double a, double b) {
                return a <= b;
            }
        },
        Or {
            @Override
            boolean test(double a, double b) {
                return a != 0 || b != 0;
            }
        },
        Xor {
            @Override
            boolean test(double a, double b) {
                return (a != 0) != (b != 0);
            }
        };

        abstract boolean test(double a, double b);

        /** What reads the ONNX operator of this name. */
        public OpReader<Comparison> reader() {
            return source -> new Comparison(this, Pair.readPredicate(source));
        }
    }

    @Override
    public String type() {
        return kind.name();
    }

    @Override
    public boolean isDifferentiable(int i) {
        return false;
    }

    @Override
    public double value(double a, double b) {
        return kind.test(a, b) ? 1 : 0;
    }

    @Override
    public void value(float[] a, float[] b, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = kind.test(a[i], b[i]) ? 1 : 0;
        }
    }

    @Override
    public double gradientA(double g, double a, double b) {
        throw none();
    }

    @Override
    public double gradientB(double g, double a, double b) {
        throw none();
    }

    @Override
    public void gradientA(float[] g, float[] a, float[] b, float[] da, int n) {
        throw none();
    }

    @Override
    public void gradientB(float[] g, float[] a, float[] b, float[] db, int n) {
        throw none();
    }

    private IllegalStateException none() {
        return new IllegalStateException(kind + " has no gradient");
    }

    @Override
    public boolean reads(int gradient, int input) {
        return false;
    }
}
