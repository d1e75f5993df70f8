package dev.octet.trainer.op.binary;

import static dev.octet.trainer.op.binary.BinaryGradient.NONE;
import static dev.octet.trainer.op.binary.BinaryGradient.PASSED;
import static dev.octet.trainer.op.binary.BinaryGradient.ofA;
import static dev.octet.trainer.op.binary.BinaryGradient.ofB;
import static dev.octet.trainer.op.binary.BinaryGradient.ofBoth;
import static dev.octet.trainer.op.binary.BinaryGradient.ofNeither;
import static dev.octet.trainer.op.binary.BinaryValue.formula;
import static dev.octet.trainer.op.binary.BinaryValue.predicate;

import dev.octet.trainer.kernel.OpSource;
import java.util.OptionalDouble;
import java.util.function.Function;

/**
 * The functions of two operands, named as the ONNX operators. One more is one row: how its operands are read, its value, and the shares of the
 * gradient that go to a and to b, each as a formula in doubles, as CUDA C++ and as a loop over a tile.
 */
@SuppressWarnings("ImmutableEnumChecker") // functions without state
public enum BinaryFunction {
    /** a + b. */
    Add(
            Pair::read,
            formula((a, b) -> a + b, "a + b", (a, b, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = a[i] + b[i];
                }
            }),
            PASSED,
            PASSED),

    And(Pair::readPredicate, predicate((a, b) -> a != 0 && b != 0, "a != 0 && b != 0"), NONE, NONE),

    /** a / b; integers are divided towards zero. The share of b is -g·(a / b) / b: as torch, in the order that does not overflow with b². */
    Div(
            Pair::read,
            formula((a, b) -> a / b, "a / b", (a, b, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = a[i] / b[i];
                }
            }),
            ofB((g, a, b) -> g / b, "g / b", (g, a, b, da, n) -> {
                for (int i = 0; i < n; i++) {
                    da[i] = g[i] / b[i];
                }
            }),
            ofBoth((g, a, b) -> -g * ((a / b) / b), "-g * ((a / b) / b)", (g, a, b, db, n) -> {
                for (int i = 0; i < n; i++) {
                    db[i] = -g[i] * ((a[i] / b[i]) / b[i]);
                }
            })),

    Equal(Pair::readPredicate, predicate((a, b) -> a == b, "a == b"), NONE, NONE),

    Greater(Pair::readPredicate, predicate((a, b) -> a > b, "a > b"), NONE, NONE),

    GreaterOrEqual(Pair::readPredicate, predicate((a, b) -> a >= b, "a >= b"), NONE, NONE),

    Less(Pair::readPredicate, predicate((a, b) -> a < b, "a < b"), NONE, NONE),

    LessOrEqual(Pair::readPredicate, predicate((a, b) -> a <= b, "a <= b"), NONE, NONE),

    /** The larger; NaN when one is NaN. The gradient goes to the larger one, half to each of equal ones, as in torch. */
    Max(
            Pair::readVariadic,
            formula(Math::max, "a != a ? a : b != b ? b : a > b ? a : b", (a, b, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = Math.max(a[i], b[i]);
                }
            }),
            ofBoth(
                    (g, a, b) -> a < b ? 0 : a == b ? g / 2 : g,
                    "a < b ? 0 : a == b ? g / 2 : g",
                    BinaryFunction::toLarger),
            ofBoth(
                    (g, a, b) -> b < a ? 0 : a == b ? g / 2 : g,
                    "b < a ? 0 : a == b ? g / 2 : g",
                    (g, a, b, db, n) -> toLarger(g, b, a, db, n))),

    /** The smaller, as {@link #Max}. */
    Min(
            Pair::readVariadic,
            formula(Math::min, "a != a ? a : b != b ? b : a < b ? a : b", (a, b, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = Math.min(a[i], b[i]);
                }
            }),
            ofBoth(
                    (g, a, b) -> a > b ? 0 : a == b ? g / 2 : g,
                    "a > b ? 0 : a == b ? g / 2 : g",
                    BinaryFunction::toSmaller),
            ofBoth(
                    (g, a, b) -> b > a ? 0 : a == b ? g / 2 : g,
                    "b > a ? 0 : a == b ? g / 2 : g",
                    (g, a, b, db, n) -> toSmaller(g, b, a, db, n))),

    /** a·b. */
    Mul(
            Pair::read,
            formula((a, b) -> a * b, "a * b", BinaryFunction::products),
            ofB((g, a, b) -> g * b, "g * b", (g, a, b, da, n) -> products(g, b, da, n)),
            ofA((g, a, b) -> g * a, "g * a", (g, a, b, db, n) -> products(g, a, db, n))),

    Or(Pair::readPredicate, predicate((a, b) -> a != 0 || b != 0, "a != 0 || b != 0"), NONE, NONE),

    /** a^b: see {@link Power}. */
    Pow(
            Pair::readPower,
            BinaryValue.withConstant(Math::pow, "pow(a, b)", Power::value),
            BinaryGradient.withConstant(
                    Power::ofBase,
                    "constant_or(constant, b) == 0 ? 0 : g * constant_or(constant, b) * powf(a, constant_or(constant,"
                            + " b) - 1)",
                    Power::ofBase),
            ofBoth(Power::ofExponent, "a == 0 && b >= 0 ? 0 : g * powf(a, b) * logf(a)", Power::ofExponent)),

    /** a where it is positive, else b·a; b, the slope, is repeated to the shape of a. At 0 the slope counts, as in torch. */
    PRelu(
            Pair::read,
            formula((a, b) -> a > 0 ? a : b * a, "a > 0 ? a : b * a", (a, b, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = a[i] > 0 ? a[i] : b[i] * a[i];
                }
            }),
            ofBoth((g, a, b) -> a > 0 ? g : g * b, "a > 0 ? g : g * b", (g, a, b, da, n) -> {
                for (int i = 0; i < n; i++) {
                    da[i] = a[i] > 0 ? g[i] : g[i] * b[i];
                }
            }),
            ofA((g, a, b) -> a > 0 ? 0 : g * a, "a > 0 ? 0 : g * a", (g, a, b, db, n) -> {
                for (int i = 0; i < n; i++) {
                    db[i] = a[i] > 0 ? 0 : g[i] * a[i];
                }
            })),

    /** a - b. */
    Sub(
            Pair::read,
            formula((a, b) -> a - b, "a - b", (a, b, y, n) -> {
                for (int i = 0; i < n; i++) {
                    y[i] = a[i] - b[i];
                }
            }),
            PASSED,
            ofNeither((g, a, b) -> -g, "-g", (g, a, b, db, n) -> {
                for (int i = 0; i < n; i++) {
                    db[i] = -g[i];
                }
            })),

    Xor(Pair::readPredicate, predicate((a, b) -> (a != 0) != (b != 0), "(a != 0) != (b != 0)"), NONE, NONE);

    private final Function<OpSource, Pair> operands;
    private final BinaryValue value;
    private final BinaryGradient ofA;
    private final BinaryGradient ofB;

    BinaryFunction(Function<OpSource, Pair> operands, BinaryValue value, BinaryGradient ofA, BinaryGradient ofB) {
        this.operands = operands;
        this.value = value;
        this.ofA = ofA;
        this.ofB = ofB;
    }

    private static void products(float[] a, float[] b, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = a[i] * b[i];
        }
    }

    private static void toLarger(float[] g, float[] own, float[] other, float[] d, int n) {
        for (int i = 0; i < n; i++) {
            d[i] = own[i] < other[i] ? 0 : own[i] == other[i] ? g[i] / 2 : g[i];
        }
    }

    private static void toSmaller(float[] g, float[] own, float[] other, float[] d, int n) {
        for (int i = 0; i < n; i++) {
            d[i] = own[i] > other[i] ? 0 : own[i] == other[i] ? g[i] / 2 : g[i];
        }
    }

    BinaryValue value() {
        return value;
    }

    /** The share of operand {@code i}. */
    BinaryGradient gradient(int i) {
        return i == 0 ? ofA : ofB;
    }

    /** The function of two operands that are both computed. */
    public Binary of(Pair pair) {
        return new Binary(this, pair, OptionalDouble.empty());
    }

    /** Reads the ONNX operator of this name. */
    Binary read(OpSource source) {
        return new Binary(this, operands.apply(source), this == Pow ? source.number(1) : OptionalDouble.empty());
    }

    /** Its number in the switch that is generated for the GPU in this process. */
    @SuppressWarnings("EnumOrdinal") // neither stored nor compared between processes
    int cudaCase() {
        return ordinal();
    }
}
