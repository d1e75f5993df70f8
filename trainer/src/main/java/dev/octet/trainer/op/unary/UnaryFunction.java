package dev.octet.trainer.op.unary;

import static dev.octet.trainer.op.unary.UnaryGradient.NONE;
import static dev.octet.trainer.op.unary.UnaryGradient.constant;
import static dev.octet.trainer.op.unary.UnaryGradient.ofInput;
import static dev.octet.trainer.op.unary.UnaryGradient.ofOutput;
import static dev.octet.trainer.op.unary.UnaryValue.formula;
import static dev.octet.trainer.op.unary.UnaryValue.predicate;

import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;
import java.util.Arrays;
import java.util.List;

/**
 * The functions of one operand, named as the ONNX operators. One more is one row: its value, its gradient (from x or from y, whichever is
 * cheaper), both as a formula in doubles, as CUDA C++ and, where a call for each element would count, as a loop over a tile.
 */
@SuppressWarnings("ImmutableEnumChecker") // functions without state
public enum UnaryFunction {
    /** {@code |x|}; no gradient at 0. */
    Abs(
            formula(Math::abs, "fabs(x)", (x, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = Math.abs(x[i]);
                }
            }),
            ofInput((g, x) -> g * Math.signum(x), "g * sign(x)", (g, x, dx, n) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = g[i] * Math.signum(x[i]);
                }
            })),

    /** The angle in 0 .. π whose cosine is x; its slope is infinite at -1 and 1. */
    Acos(
            formula(Math::acos, "acos(x)"),
            ofInput((g, x) -> -g / Math.sqrt((1 - x) * (1 + x)), "-g / sqrtf((1 - x) * (1 + x))")),

    /** ln(x + √(x² - 1)) for x >= 1; its slope is infinite at 1. */
    Acosh(
            formula(x -> Math.log(x + Math.sqrt(x - 1) * Math.sqrt(x + 1)), "acosh(x)"),
            ofInput((g, x) -> g / Math.sqrt((x - 1) * (x + 1)), "g / sqrtf((x - 1) * (x + 1))")),

    /** The angle in -π/2 .. π/2 whose sine is x; its slope is infinite at -1 and 1. */
    Asin(
            formula(Math::asin, "asin(x)"),
            ofInput((g, x) -> g / Math.sqrt((1 - x) * (1 + x)), "g / sqrtf((1 - x) * (1 + x))")),

    /** ln(x + √(x² + 1)), computed from |x| so that nothing cancels. */
    Asinh(formula(UnaryFunction::asinh, "asinh(x)"), ofInput((g, x) -> g / Math.hypot(1, x), "g / hypotf(1, x)")),

    /** The angle in -π/2 .. π/2 whose tangent is x. */
    Atan(formula(Math::atan, "atan(x)"), ofInput((g, x) -> g / (1 + x * x), "g / (1 + x * x)")),

    /** ln((1 + x) / (1 - x)) / 2. */
    Atanh(
            formula(x -> 0.5 * (Math.log1p(x) - Math.log1p(-x)), "atanh(x)"),
            ofInput((g, x) -> g / ((1 - x) * (1 + x)), "g / ((1 - x) * (1 + x))")),

    /** The next integer above. */
    Ceil(formula(Math::ceil, "ceil(x)"), NONE),

    /** x between a and b; the gradient passes within the closed range, as in torch. NaN stays NaN and has no gradient. */
    Clip(
            formula((x, a, b) -> within(x, a, b), "within(x, a, b)", (x, y, n, a, b) -> {
                for (int i = 0; i < n; i++) {
                    float bounded = x[i] < a ? a : x[i];
                    y[i] = bounded > b ? b : bounded;
                }
            }),
            ofInput((g, x, a, b) -> x >= a && x <= b ? g : 0, "x >= a && x <= b ? g : 0", (g, x, dx, n, a, b) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = x[i] >= a && x[i] <= b ? g[i] : 0;
                }
            }),
            new UnaryAttribute("lowest", "min", 1, Float.NEGATIVE_INFINITY),
            new UnaryAttribute("highest", "max", 2, Float.POSITIVE_INFINITY)),

    /** cos x. */
    Cos(formula(Math::cos, "cos(x)"), ofInput((g, x) -> -g * Math.sin(x), "-g * sinf(x)", (g, x, dx, n) -> {
        for (int i = 0; i < n; i++) {
            dx[i] = -g[i] * (float) Math.sin(x[i]);
        }
    })),

    /** erf x; its slope is 2/√π·e^-x². */
    Erf(
            formula(ErrorFunction::of, "erf(x)", (x, y, n) -> VectorMath.erf(x, 0, y, 0, n)),
            ofInput(
                    (g, x) -> ErrorFunction.SLOPE * Math.exp(-x * x) * g,
                    "1.1283791670955126f * expf(-x * x) * g",
                    ErrorFunction::gradient)),

    /** e^x. */
    Exp(
            formula(Math::exp, "exp(x)", (x, y, n) -> VectorMath.exp(x, 0, y, 0, n)),
            ofOutput((g, y) -> g * y, "g * y", (g, y, dx, n) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = g[i] * y[i];
                }
            })),

    /** The next integer below. */
    Floor(formula(Math::floor, "floor(x)"), NONE),

    /** {@code a·x + b} between 0 and 1, bounded by them; no gradient at the bounds, as in torch. */
    HardSigmoid(
            formula(
                    (x, a, b) -> Math.max(0, Math.min(1, a * x + b)),
                    "within(a * x + b, (R)0, (R)1)",
                    (x, y, n, a, b) -> {
                        for (int i = 0; i < n; i++) {
                            y[i] = Math.max(0, Math.min(1, a * x[i] + b));
                        }
                    }),
            ofInput(
                    (g, x, a, b) -> a * x + b > 0 && a * x + b < 1 ? a * g : 0,
                    "a * x + b > 0 && a * x + b < 1 ? a * g : 0",
                    (g, x, dx, n, a, b) -> {
                        for (int i = 0; i < n; i++) {
                            float line = a * x[i] + b;
                            dx[i] = line > 0 && line < 1 ? a * g[i] : 0;
                        }
                    }),
            UnaryAttribute.of("alpha", 0.2f),
            UnaryAttribute.of("beta", 0.5f)),

    /** {@code x·max(0, min(1, x/6 + 1/2))}; its slope is 0 up to -3, 1 from 3 on. */
    HardSwish(
            formula(
                    x -> x * Math.max(0, Math.min(1, x / 6 + 0.5)),
                    "x * within(x / 6 + (R)0.5, (R)0, (R)1)",
                    (x, y, n) -> {
                        for (int i = 0; i < n; i++) {
                            y[i] = x[i] * Math.max(0, Math.min(1, x[i] / 6 + 0.5f));
                        }
                    }),
            ofInput(
                    (g, x) -> x <= -3 ? 0 : x >= 3 ? g : g * (x / 3 + 0.5),
                    "x <= -3 ? 0 : x >= 3 ? g : g * (x / 3 + 0.5f)",
                    (g, x, dx, n) -> {
                        for (int i = 0; i < n; i++) {
                            dx[i] = x[i] <= -3 ? 0 : x[i] >= 3 ? g[i] : g[i] * (x[i] / 3 + 0.5f);
                        }
                    })),

    /** Whether x is infinite. */
    IsInf(predicate(Double::isInfinite, "x - x != 0 && x == x"), NONE),

    /** Whether x is NaN. */
    IsNaN(predicate(Double::isNaN, "x != x"), NONE),

    /** x where it is positive, else {@code a·x}. At 0 the slope is a, as in torch. */
    LeakyRelu(
            formula((x, a, b) -> x > 0 ? x : a * x, "x > 0 ? x : a * x", (x, y, n, a, b) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = x[i] > 0 ? x[i] : a * x[i];
                }
            }),
            ofInput((g, x, a, b) -> x > 0 ? g : a * g, "x > 0 ? g : a * g", (g, x, dx, n, a, b) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = a * g[i];
                }
                VectorMath.select(x, g, dx, dx, n);
            }),
            UnaryAttribute.of("alpha", 0.01f)),

    /** ln x. */
    Log(
            formula(Math::log, "log(x)", (x, y, n) -> VectorMath.log(x, 0, y, 0, n)),
            ofInput((g, x) -> g / x, "g / x", (g, x, dx, n) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = g[i] / x[i];
                }
            })),

    /** -x. */
    Neg(
            formula(x -> -x, "-x", (x, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = -x[i];
                }
            }),
            constant((g, any) -> -g, "-g", (g, any, dx, n) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = -g[i];
                }
            })),

    /** The other truth value. */
    Not(predicate(x -> x == 0, "x == 0"), NONE),

    /** 1 / x. */
    Reciprocal(
            formula(x -> 1 / x, "1 / x", (x, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = 1 / x[i];
                }
            }),
            ofOutput((g, y) -> -g * y * y, "-g * y * y", (g, y, dx, n) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = -g[i] * y[i] * y[i];
                }
            })),

    /** The larger of x and 0; no gradient at 0, as in torch. NaN stays NaN. */
    Relu(
            formula(x -> x <= 0 ? 0 : x, "x <= 0 ? (R)0 : x", (x, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = Math.max(x[i], 0);
                }
            }),
            ofOutput((g, y) -> y <= 0 ? 0 : g, "y <= 0 ? 0 : g", (g, y, dx, n) -> {
                Arrays.fill(dx, 0, n, 0);
                VectorMath.select(y, g, dx, dx, n);
            })),

    /** The nearest integer, of two the even one. */
    Round(formula(Math::rint, "rint(x)"), NONE),

    /** 1 / (1 + e^-x). */
    Sigmoid(
            formula(x -> 1 / (1 + Math.exp(-x)), "sigmoid(x)", (x, y, n) -> VectorMath.sigmoid(x, 0, y, 0, n)),
            ofOutput((g, y) -> g * y * (1 - y), "g * y * (1 - y)", (g, y, dx, n) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = g[i] * y[i] * (1 - y[i]);
                }
            })),

    /** -1, 0 or 1; NaN stays NaN. */
    Sign(formula(Math::signum, "sign(x)"), NONE),

    /** sin x. */
    Sin(formula(Math::sin, "sin(x)"), ofInput((g, x) -> g * Math.cos(x), "g * cosf(x)", (g, x, dx, n) -> {
        for (int i = 0; i < n; i++) {
            dx[i] = g[i] * (float) Math.cos(x[i]);
        }
    })),

    /** ln(1 + e^x); its slope is 1 / (1 + e^-x). */
    Softplus(
            formula(
                    x -> x > 0 ? x + Math.log1p(Math.exp(-x)) : Math.log1p(Math.exp(x)),
                    "x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))",
                    (x, y, n) -> VectorMath.softplus(x, 0, y, 0, n)),
            ofInput((g, x) -> g / (1 + Math.exp(-x)), "g * sigmoid(x)", (g, x, dx, n) -> {
                VectorMath.sigmoid(x, 0, dx, 0, n);
                for (int i = 0; i < n; i++) {
                    dx[i] *= g[i];
                }
            })),

    /** √x; its slope is infinite at 0. */
    Sqrt(
            formula(Math::sqrt, "sqrt(x)", (x, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = (float) Math.sqrt(x[i]);
                }
            }),
            ofOutput((g, y) -> g / (2 * y), "g / (2 * y)", (g, y, dx, n) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = g[i] / (2 * y[i]);
                }
            })),

    /** {@code x·s} with {@code s = 1 / (1 + e^-(a·x))}, SiLU for a = 1; its slope is s·(1 + a·x·(1 - s)). */
    Swish(
            formula((x, a, b) -> x / (1 + Math.exp(-a * x)), "x * sigmoid(a * x)", (x, y, n, a, b) -> {
                float[] s = new float[n];
                sigmoid(x, a, s, n);
                for (int i = 0; i < n; i++) {
                    y[i] = x[i] * s[i];
                }
            }),
            ofInput(
                    (g, x, a, b) -> {
                        double s = 1 / (1 + Math.exp(-a * x));
                        return g * s * (1 + a * x * (1 - s));
                    },
                    "g * sigmoid(a * x) * (1 + a * x * (1 - sigmoid(a * x)))",
                    (g, x, dx, n, a, b) -> {
                        sigmoid(x, a, dx, n);
                        for (int i = 0; i < n; i++) {
                            dx[i] = g[i] * dx[i] * (1 + a * x[i] * (1 - dx[i]));
                        }
                    }),
            UnaryAttribute.of("alpha", 1)),

    /** tanh x. */
    Tanh(
            formula(Math::tanh, "tanh(x)", (x, y, n) -> VectorMath.tanh(x, 0, y, 0, n)),
            ofOutput((g, y) -> g * (1 - y * y), "g * (1 - y * y)", (g, y, dx, n) -> {
                for (int i = 0; i < n; i++) {
                    dx[i] = g[i] * (1 - y[i] * y[i]);
                }
            }));

    private final UnaryValue value;
    private final UnaryGradient gradient;
    private final List<UnaryAttribute> attributes;

    UnaryFunction(UnaryValue value, UnaryGradient gradient, UnaryAttribute... attributes) {
        this.value = value;
        this.gradient = gradient;
        this.attributes = List.of(attributes);
    }

    private static double asinh(double x) {
        double a = Math.abs(x);
        double y = a > 0x1p28 ? Math.log(a) + Math.log(2) : Math.log1p(a + a * a / (1 + Math.hypot(1, a)));
        return Math.copySign(y, x);
    }

    private static double within(double x, double lowest, double highest) {
        double bounded = x < lowest ? lowest : x;
        return bounded > highest ? highest : bounded;
    }

    private static void sigmoid(float[] x, float alpha, float[] s, int n) {
        for (int i = 0; i < n; i++) {
            s[i] = alpha * x[i];
        }
        VectorMath.sigmoid(s, 0, s, 0, n);
    }

    UnaryValue value() {
        return value;
    }

    UnaryGradient gradient() {
        return gradient;
    }

    boolean hasAttributes() {
        return !attributes.isEmpty();
    }

    /** The function of an operand, its attributes in the order of the row. */
    public Unary of(OperandType x, double... numbers) {
        if (numbers.length != attributes.size()) {
            throw new IllegalArgumentException(this + " has " + attributes.size() + " attributes");
        }
        return new Unary(this, x, numbers.length > 0 ? numbers[0] : 0, numbers.length > 1 ? numbers[1] : 0);
    }

    /** Reads the ONNX operator of this name. */
    Unary read(OpSource source) {
        return of(
                source.input(0),
                attributes.stream().mapToDouble(a -> a.read(source)).toArray());
    }

    /** The attributes as printed programs have them. */
    String text(double... numbers) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < attributes.size(); i++) {
            text.append(", ").append(attributes.get(i).text(numbers[i]));
        }
        return text.toString();
    }

    /** Its number in the switch that is generated for the GPU in this process. */
    @SuppressWarnings("EnumOrdinal") // neither stored nor compared between processes
    int cudaCase() {
        return ordinal();
    }
}
