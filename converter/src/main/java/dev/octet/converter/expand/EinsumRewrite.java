package dev.octet.converter.expand;

import dev.octet.formats.graph.Attribute;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Einsum as sums, transposes and one batched MatMul for each operand after the first. Not supported: a letter twice in one operand (a
 * diagonal), sizes of 1 that broadcast, ellipses.
 */
final class EinsumRewrite {
    private final Rewriting r;
    private final String result;
    private final Map<Character, Long> sizes = new HashMap<>();

    /** A value with a letter for each of its axes. */
    private record Term(String value, String letters) {}

    private EinsumRewrite(Rewriting r, String result) {
        this.r = r;
        this.result = result;
    }

    static boolean write(Rewriting r) {
        String equation = r.node().textAttribute("equation", "").replace(" ", "");
        if (!equation.matches("[A-Za-z]*(,[A-Za-z]*)*(->[A-Za-z]*)?") || !r.isFloat()) {
            return false;
        }
        String[] sides = equation.split("->", -1);
        List<String> terms = List.of(sides[0].split(",", -1));
        String result = sides.length == 2 ? sides[1] : implicit(sides[0]);
        boolean once = terms.stream().allMatch(EinsumRewrite::hasEachOnce) && hasEachOnce(result);
        EinsumRewrite rewrite = new EinsumRewrite(r, result);
        if (!once || terms.size() != r.node().inputs().size() || !rewrite.measure(terms)) {
            return false;
        }
        rewrite.write(terms);
        return true;
    }

    /** Without an arrow, the output has the letters that occur once, in alphabetical order. */
    private static String implicit(String left) {
        Map<Integer, Long> count = left.chars()
                .filter(Character::isLetter)
                .boxed()
                .collect(Collectors.groupingBy(c -> c, TreeMap::new, Collectors.counting()));
        return count.entrySet().stream()
                .filter(e -> e.getValue() == 1)
                .map(e -> Character.toString(e.getKey()))
                .collect(Collectors.joining());
    }

    private static boolean hasEachOnce(String letters) {
        return letters.chars().distinct().count() == letters.length();
    }

    /** Finds the size of each letter; false when an operand's size is unknown. */
    private boolean measure(List<String> terms) {
        for (int i = 0; i < terms.size(); i++) {
            long @Nullable [] shape = r.shape(i);
            String letters = terms.get(i);
            if (shape == null || shape.length != letters.length()) {
                return false;
            }
            for (int a = 0; a < shape.length; a++) {
                Long known = sizes.putIfAbsent(letters.charAt(a), shape[a]);
                if (known != null && known != shape[a]) {
                    return false;
                }
            }
        }
        return result.chars().allMatch(c -> sizes.containsKey((char) c));
    }

    private void write(List<String> terms) {
        Term all = summed(new Term(r.x(), terms.getFirst()), wanted(terms, 1));
        for (int i = 1; i < terms.size(); i++) {
            Set<Character> later = wanted(terms, i + 1);
            Set<Character> here = letters(all.letters());
            here.addAll(later);
            Term next = summed(new Term(r.node().input(i), terms.get(i)), here);
            all = product(all, next, later);
        }
        r.e().last("Transpose", List.of(all.value()), Attribute.of("perm", permutation(all.letters(), result)));
    }

    /** Letters that operands from number {@code from} on or the result have. */
    private Set<Character> wanted(List<String> terms, int from) {
        Set<Character> wanted = letters(result);
        terms.subList(from, terms.size()).forEach(t -> wanted.addAll(letters(t)));
        return wanted;
    }

    private static Set<Character> letters(String text) {
        return text.chars().mapToObj(c -> (char) c).collect(Collectors.toSet());
    }

    private static String matching(String letters, Set<Character> set, boolean in) {
        return letters.chars()
                .filter(c -> set.contains((char) c) == in)
                .mapToObj(Character::toString)
                .collect(Collectors.joining());
    }

    /** Sums over the letters that neither the other operands nor the output have. */
    private Term summed(Term t, Set<Character> wanted) {
        long[] axes = IntStream.range(0, t.letters().length())
                .filter(a -> !wanted.contains(t.letters().charAt(a)))
                .asLongStream()
                .toArray();
        return axes.length == 0
                ? t
                : new Term(
                        r.e().node("ReduceSum", List.of(t.value(), r.e().numbers(axes)), Attribute.of("keepdims", 0L)),
                        matching(t.letters(), wanted, true));
    }

    /** Letters of both operands are summed over, unless a later operand or the output has them. */
    private Term product(Term a, Term b, Set<Character> later) {
        Set<Character> inB = letters(b.letters());
        String both = matching(a.letters(), inB, true);
        String batch = matching(both, later, true);
        String summed = matching(both, later, false);
        String left = matching(a.letters(), inB, false);
        String right = matching(b.letters(), letters(a.letters()), false);
        String first = matrix(a, batch, left, summed);
        String second = matrix(b, batch, summed, right);
        String letters = batch + left + right;
        return new Term(r.reshape(r.node("MatMul", first, second), dims(letters)), letters);
    }

    /** A term as [batch, rows, columns]. */
    private String matrix(Term t, String batch, String rows, String columns) {
        String transposed = r.transpose(t.value(), permutation(t.letters(), batch + rows + columns));
        return r.reshape(transposed, count(batch), count(rows), count(columns));
    }

    private long count(String letters) {
        return Arrays.stream(dims(letters)).reduce(1, Math::multiplyExact);
    }

    private long[] dims(String letters) {
        return letters.chars().mapToLong(c -> sizes.getOrDefault((char) c, 0L)).toArray();
    }

    private static List<Long> permutation(String from, String to) {
        List<Long> perm = new ArrayList<>();
        to.chars().forEach(c -> perm.add((long) from.indexOf(c)));
        return perm;
    }
}
