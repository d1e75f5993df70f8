package dev.octet.bench.gpu;

import java.util.Map;
import java.util.NoSuchElementException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Sums and products of numbers and names, with parentheses: {@code rows * (size + 1)}. */
final class Formula {
    private static final Pattern TOKEN = Pattern.compile("\\s*([A-Za-z_]\\w*|\\d+(?:\\.\\d+)?|[-+*/()])");

    private final String text;
    private final Map<String, Double> values;
    private final Matcher tokens;
    private String token = "";

    private Formula(String text, Map<String, Double> values) {
        this.text = text;
        this.values = values;
        this.tokens = TOKEN.matcher(text.strip());
        advance();
    }

    /**
     * What a formula comes to.
     *
     * @throws IllegalArgumentException when it is none
     * @throws NoSuchElementException when a name has no value
     */
    static double value(String text, Map<String, Double> values) {
        Formula formula = new Formula(text, values);
        double value = formula.sum();
        if (!formula.token.isEmpty()) {
            throw formula.wrong();
        }
        return value;
    }

    private void advance() {
        if (tokens.regionStart() == tokens.regionEnd()) {
            token = "";
            return;
        }
        if (!tokens.lookingAt()) {
            throw wrong();
        }
        token = tokens.group(1);
        tokens.region(tokens.end(), tokens.regionEnd());
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("'" + text + "' is no formula, from '" + token + "' on");
    }

    private double sum() {
        double value = term();
        while (token.equals("+") || token.equals("-")) {
            double sign = token.equals("+") ? 1 : -1;
            advance();
            value += sign * term();
        }
        return value;
    }

    private double term() {
        double value = factor();
        while (token.equals("*") || token.equals("/")) {
            boolean times = token.equals("*");
            advance();
            double by = factor();
            value = times ? value * by : value / by;
        }
        return value;
    }

    private double factor() {
        String now = token;
        if (now.isEmpty() || now.equals(")")) {
            throw wrong();
        }
        advance();
        if (now.equals("(")) {
            double value = sum();
            if (!token.equals(")")) {
                throw wrong();
            }
            advance();
            return value;
        }
        if (Character.isDigit(now.charAt(0))) {
            return Double.parseDouble(now);
        }
        Double value = values.get(now);
        if (value == null) {
            throw new NoSuchElementException("no value of '" + now + "' in '" + text + "'");
        }
        return value;
    }
}
