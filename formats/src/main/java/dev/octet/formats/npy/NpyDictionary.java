package dev.octet.formats.npy;

import dev.octet.formats.error.InvalidDataException;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * The Python dictionary in a header: {@code {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }}. The parser accepts only this
 * form: strings, booleans and tuples of counts; the three keys, each once, in any order.
 */
final class NpyDictionary {
    private final String text;
    private final String where;
    private final NpyLimits limits;
    private int position;

    private String descr = "";
    private boolean fortranOrder;
    private long[] shape = {};

    private NpyDictionary(String text, String where, NpyLimits limits) {
        this.text = text;
        this.where = where;
        this.limits = limits;
    }

    static NpyDictionary parse(String text, String where, NpyLimits limits) {
        NpyDictionary dictionary = new NpyDictionary(text, where, limits);
        dictionary.parse();
        return dictionary;
    }

    String descr() {
        return descr;
    }

    boolean fortranOrder() {
        return fortranOrder;
    }

    long[] shape() {
        return shape.clone();
    }

    private void parse() {
        Set<String> seen = new HashSet<>();
        expect('{');
        while (!accept('}')) {
            String key = string();
            if (!seen.add(key)) {
                throw malformed("has two entries '" + key + "'");
            }
            expect(':');
            switch (key) {
                case "descr" -> descr = descrText();
                case "fortran_order" -> fortranOrder = truth();
                case "shape" -> shape = tuple();
                default -> throw malformed("has an unknown entry '" + key + "'");
            }
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skipSpace();
        if (position != text.length()) {
            throw malformed("has something behind its dictionary");
        }
        if (seen.size() != 3) {
            throw malformed("lacks one of descr, fortran_order, shape");
        }
    }

    /** The element type; refuses a list, which describes records with named fields. */
    private String descrText() {
        skipSpace();
        if (position < text.length() && text.charAt(position) == '[') {
            throw new InvalidDataException(
                    "the array holds records with several fields, not numbers",
                    where,
                    "save each field as an array of its own");
        }
        return string();
    }

    private String string() {
        skipSpace();
        char quote = position < text.length() ? text.charAt(position) : 0;
        int end = quote == '\'' || quote == '"' ? text.indexOf(quote, position + 1) : -1;
        if (end < 0) {
            throw malformed("has no text at character " + position);
        }
        String string = text.substring(position + 1, end);
        position = end + 1;
        return string;
    }

    private boolean truth() {
        skipSpace();
        for (String word : new String[] {"True", "False"}) {
            if (text.startsWith(word, position)) {
                position += word.length();
                return word.equals("True");
            }
        }
        throw malformed("has a fortran_order that is neither True nor False");
    }

    private long[] tuple() {
        long[] dims = new long[Math.min(limits.maxRank(), 8)];
        int rank = 0;
        expect('(');
        while (!accept(')')) {
            if (rank == limits.maxRank()) {
                throw malformed("has more than " + limits.maxRank() + " dimensions");
            }
            if (rank == dims.length) {
                dims = Arrays.copyOf(dims, Math.min(limits.maxRank(), 2 * rank));
            }
            dims[rank++] = count();
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return Arrays.copyOf(dims, rank);
    }

    private long count() {
        skipSpace();
        int start = position;
        while (position < text.length() && text.charAt(position) >= '0' && text.charAt(position) <= '9') {
            position++;
        }
        String digits = text.substring(start, position);
        accept('L'); // suffix of Python 2's long integers
        try {
            return Long.parseLong(digits);
        } catch (NumberFormatException e) {
            throw malformed("has a shape with something else than counts of 63 bits at character " + start);
        }
    }

    private boolean accept(char c) {
        skipSpace();
        boolean here = position < text.length() && text.charAt(position) == c;
        if (here) {
            position++;
        }
        return here;
    }

    private void expect(char c) {
        if (!accept(c)) {
            throw malformed("lacks a '" + c + "' at character " + position);
        }
    }

    private void skipSpace() {
        while (position < text.length() && " \t\r\n".indexOf(text.charAt(position)) >= 0) {
            position++;
        }
    }

    private InvalidDataException malformed(String what) {
        return new InvalidDataException(
                "the array's header " + what, where, "write the array again with numpy.save or numpy.savez");
    }
}
