package dev.octet.converter.jinja;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Operators on Python's values: {@code Boolean}, {@code Long} and {@code BigInteger}, {@code Double}, {@code String}, lists. */
final class Arithmetic {
    private static final int MAX_BITS = 4096;
    private static final int MAX_REPEATED = 1 << 24;

    private Arithmetic() {}

    static Object integer(BigInteger value) {
        if (value.bitLength() > MAX_BITS) {
            throw new JinjaException("a number has more than " + MAX_BITS + " bits");
        }
        return value.bitLength() < Long.SIZE ? (Object) value.longValue() : value;
    }

    static boolean isInteger(@Nullable Object o) {
        return o instanceof Long || o instanceof BigInteger || o instanceof Boolean;
    }

    static boolean isNumber(@Nullable Object o) {
        return isInteger(o) || o instanceof Double;
    }

    static BigInteger big(@Nullable Object o) {
        return switch (o) {
            case Long l -> BigInteger.valueOf(l);
            case BigInteger b -> b;
            case Boolean b -> b ? BigInteger.ONE : BigInteger.ZERO;
            case null, default -> throw new JinjaException(PythonText.type(o) + " is not an integer");
        };
    }

    static int index(@Nullable Object o) {
        BigInteger value = big(o);
        return value.bitLength() > 31 ? (value.signum() < 0 ? Integer.MIN_VALUE : Integer.MAX_VALUE) : value.intValue();
    }

    static double number(@Nullable Object o) {
        return o instanceof Double d ? d : big(o).doubleValue();
    }

    /** Compares numbers exactly; NaN is handled by the caller. */
    static int compare(@Nullable Object a, @Nullable Object b) {
        if (a instanceof Double || b instanceof Double) {
            double x = number(a);
            double y = number(b);
            if (Double.isInfinite(x) || Double.isInfinite(y)) {
                return Double.compare(x, y);
            }
            return exact(a).compareTo(exact(b));
        }
        return big(a).compareTo(big(b));
    }

    private static BigDecimal exact(@Nullable Object o) {
        return o instanceof Double d ? new BigDecimal(d) : new BigDecimal(big(o));
    }

    static Object negated(@Nullable Object o) {
        defined(o);
        return o instanceof Double d ? (Object) (-d) : integer(big(o).negate());
    }

    private static void defined(@Nullable Object o) {
        if (o instanceof Undefined u) {
            throw u.error();
        }
    }

    static Object binary(String operator, @Nullable Object a, @Nullable Object b) {
        if (operator.equals("~")) {
            return PythonText.of(a) + PythonText.of(b);
        }
        defined(a);
        defined(b);
        if (isNumber(a) && isNumber(b)) {
            return numbers(operator, a, b);
        }
        switch (operator) {
            case "+" -> {
                if (a instanceof String x && b instanceof String y) {
                    return x + y;
                }
                if (a instanceof List<?> x && b instanceof List<?> y && (a instanceof Tuple) == (b instanceof Tuple)) {
                    List<@Nullable Object> sum = new ArrayList<>(x);
                    sum.addAll(y);
                    return a instanceof Tuple ? new Tuple(sum) : sum;
                }
            }
            case "*" -> {
                Object times = isInteger(a) ? a : b;
                Object of = isInteger(a) ? b : a;
                if (isInteger(times) && of instanceof String s) {
                    return s.repeat(times(times, s.length()));
                }
                if (isInteger(times) && of instanceof List<?> l) {
                    List<@Nullable Object> repeated = new ArrayList<>();
                    for (int i = times(times, l.size()); i > 0; i--) {
                        repeated.addAll(l);
                    }
                    return of instanceof Tuple ? new Tuple(repeated) : repeated;
                }
            }
            case "%" -> {
                if (a instanceof String s) {
                    return PythonText.percent(s, b);
                }
            }
            default -> {}
        }
        throw new JinjaException(
                "unsupported operands of " + operator + ": " + PythonText.type(a) + " and " + PythonText.type(b));
    }

    private static int times(@Nullable Object times, int size) {
        int n = Math.max(0, index(times));
        if ((long) n * size > MAX_REPEATED) {
            throw new JinjaException("a product is longer than " + MAX_REPEATED);
        }
        return n;
    }

    private static Object numbers(String operator, @Nullable Object a, @Nullable Object b) {
        boolean floats = a instanceof Double || b instanceof Double;
        boolean zero = number(b) == 0;
        if (zero && (operator.equals("/") || operator.equals("//") || operator.equals("%"))) {
            throw new JinjaException("division by zero");
        }
        if (operator.equals("/")) {
            return number(a) / number(b);
        }
        if (operator.equals("**") && !floats && big(b).signum() >= 0) {
            if ((long) big(a).bitLength() * Math.max(1, index(b)) > MAX_BITS) {
                throw new JinjaException("a number has more than " + MAX_BITS + " bits");
            }
            return integer(big(a).pow(index(b)));
        }
        if (floats || operator.equals("**")) {
            double x = number(a);
            double y = number(b);
            return switch (operator) {
                case "+" -> x + y;
                case "-" -> x - y;
                case "*" -> x * y;
                case "//" -> Math.floor(x / y);
                case "%" -> remainder(x, y);
                default -> Math.pow(x, y);
            };
        }
        BigInteger x = big(a);
        BigInteger y = big(b);
        return integer(
                switch (operator) {
                    case "+" -> x.add(y);
                    case "-" -> x.subtract(y);
                    case "*" -> x.multiply(y);
                    case "//" -> floor(x, y);
                    default -> x.subtract(floor(x, y).multiply(y));
                });
    }

    private static double remainder(double x, double y) {
        double r = x % y;
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;
    }

    private static BigInteger floor(BigInteger x, BigInteger y) {
        BigInteger[] q = x.divideAndRemainder(y);
        return q[1].signum() != 0 && q[1].signum() != y.signum() ? q[0].subtract(BigInteger.ONE) : q[0];
    }
}
