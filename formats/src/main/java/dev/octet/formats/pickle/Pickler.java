package dev.octet.formats.pickle;

import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Writes pickles of protocol 2, value by value: what torch needs for tensors and checkpoints. Nothing is kept in the memo, so equal values are written anew, and
 * values cannot contain themselves.
 */
public final class Pickler {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();

    /** Begins a pickle. */
    public Pickler() {
        out.write(0x80);
        out.write(2);
    }

    /** A {@code str}. */
    public Pickler text(String text) {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        out.write('X');
        four(utf8.length);
        out.writeBytes(utf8);
        return this;
    }

    /** An {@code int}. */
    public Pickler number(long value) {
        if (value >= 0 && value <= 0xFF) {
            out.write('K');
            out.write((int) value);
        } else if (value == (int) value) {
            out.write('J');
            four((int) value);
        } else {
            byte[] big = BigInteger.valueOf(value).toByteArray();
            out.write(0x8a);
            out.write(big.length);
            for (int i = big.length - 1; i >= 0; i--) {
                out.write(big[i]);
            }
        }
        return this;
    }

    /** A {@code float}. */
    public Pickler real(double value) {
        out.write('G');
        long bits = Double.doubleToRawLongBits(value);
        for (int shift = Long.SIZE - Byte.SIZE; shift >= 0; shift -= Byte.SIZE) {
            out.write((int) (bits >>> shift));
        }
        return this;
    }

    /** {@code True} or {@code False}. */
    public Pickler bool(boolean value) {
        out.write(value ? 0x88 : 0x89);
        return this;
    }

    /** {@code None}. */
    public Pickler none() {
        out.write('N');
        return this;
    }

    /** A class or function of a module. */
    public Pickler global(String module, String name) {
        out.write('c');
        out.writeBytes((module + "\n" + name + "\n").getBytes(StandardCharsets.US_ASCII));
        return this;
    }

    /** Begins a tuple, or the items of a list or dict. */
    public Pickler mark() {
        out.write('(');
        return this;
    }

    /** Ends a tuple that {@link #mark} began. */
    public Pickler tuple() {
        out.write('t');
        return this;
    }

    /** An empty tuple. */
    public Pickler emptyTuple() {
        out.write(')');
        return this;
    }

    /** A tuple of numbers. */
    public Pickler tuple(List<Long> numbers) {
        mark();
        numbers.forEach(this::number);
        return tuple();
    }

    /** A new list, whose elements follow after {@link #mark}. */
    public Pickler list() {
        out.write(']');
        return this;
    }

    /** Ends the elements of a list. */
    public Pickler appends() {
        out.write('e');
        return this;
    }

    /** A new dict, whose keys and values follow after {@link #mark}. */
    public Pickler dict() {
        out.write('}');
        return this;
    }

    /** Ends the items of a dict. */
    public Pickler items() {
        out.write('u');
        return this;
    }

    /** Calls what was written before its arguments, a tuple. */
    public Pickler reduce() {
        out.write('R');
        return this;
    }

    /** Makes an object of the class that was written before its arguments, a tuple. */
    public Pickler object() {
        out.write(0x81);
        return this;
    }

    /** Gives the object before it the state that was written last. */
    public Pickler build() {
        out.write('b');
        return this;
    }

    /** Refers to something outside by the id that was written last. */
    public Pickler persistent() {
        out.write('Q');
        return this;
    }

    /** Ends the pickle. */
    public byte[] end() {
        out.write('.');
        return out.toByteArray();
    }

    private void four(int value) {
        for (int shift = 0; shift < Integer.SIZE; shift += Byte.SIZE) {
            out.write(value >>> shift);
        }
    }
}
