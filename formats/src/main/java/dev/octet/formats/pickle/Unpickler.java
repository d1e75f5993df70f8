package dev.octet.formats.pickle;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.pickle.PickleValue.Blob;
import dev.octet.formats.pickle.PickleValue.Bool;
import dev.octet.formats.pickle.PickleValue.Dict;
import dev.octet.formats.pickle.PickleValue.Global;
import dev.octet.formats.pickle.PickleValue.Instance;
import dev.octet.formats.pickle.PickleValue.Int;
import dev.octet.formats.pickle.PickleValue.Kind;
import dev.octet.formats.pickle.PickleValue.None;
import dev.octet.formats.pickle.PickleValue.Persistent;
import dev.octet.formats.pickle.PickleValue.Real;
import dev.octet.formats.pickle.PickleValue.Sequence;
import dev.octet.formats.pickle.PickleValue.Text;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Reads pickles of protocols 0 to 5. Nothing is called: REDUCE, NEWOBJ and BUILD make a note of what Python would call. Source: Python's {@code pickletools}.
 */
public final class Unpickler {
    private static final String FIX_CODE =
            "do not load the file with Python either, unless you know who made it; ask for the weights as safetensors";
    private static final String FIX_DAMAGED = "copy or save the file again";

    private final byte[] bytes;
    private final String where;
    private final PickleLimits limits;
    private int at;
    private long values;

    private final List<PickleValue> stack = new ArrayList<>();
    private final List<Integer> marks = new ArrayList<>();
    private final Map<Integer, PickleValue> memo = new HashMap<>();

    private Unpickler(byte[] bytes, int from, String where, PickleLimits limits) {
        this.bytes = bytes;
        this.at = from;
        this.where = where;
        this.limits = limits;
    }

    /**
     * A pickle and where it ends.
     *
     * @param end index of the first byte after it
     */
    public record Result(PickleValue value, int end) {}

    /**
     * Reads one pickle.
     *
     * @param where for messages: the file
     * @throws MalformedModelException when it is not one, ends too early or exceeds a limit
     * @throws UnsupportedModelException when it names a class or function that is not known, which the message names
     */
    public static PickleValue read(byte[] bytes, String where) {
        return read(bytes, 0, where, PickleLimits.DEFAULT).value();
    }

    /** The same for a pickle that starts at {@code from} and may be followed by other bytes. */
    public static Result read(byte[] bytes, int from, String where, PickleLimits limits) {
        if (bytes.length > limits.maxBytes()) {
            throw new MalformedModelException(
                    "the pickle has " + bytes.length + " bytes, at most " + limits.maxBytes() + " are read",
                    where,
                    FIX_DAMAGED);
        }
        Unpickler unpickler = new Unpickler(bytes, from, where, limits);
        PickleValue value = unpickler.run();
        return new Result(value, unpickler.at);
    }

    private PickleValue run() {
        while (true) {
            int start = at;
            int opcode = u1();
            switch (opcode) {
                case 0x80 -> { // PROTO
                    int protocol = u1();
                    if (protocol > 5) {
                        throw unsupported("the pickle has protocol " + protocol + "; 5 is the newest known");
                    }
                }
                case 0x95 -> { // FRAME: only a hint for buffering
                    long length = s8();
                    if (length < 0 || length > bytes.length - at) {
                        throw damaged(
                                "a frame of the pickle has " + length + " bytes, " + (bytes.length - at) + " are left");
                    }
                }
                case '.' -> { // STOP
                    PickleValue value = pop();
                    if (!stack.isEmpty() || !marks.isEmpty()) {
                        throw damaged("the pickle ends with " + (stack.size() + 1) + " values, not with one");
                    }
                    return value;
                }
                case '(' -> marks.add(stack.size());
                case '0' -> pop();
                case '1' -> popMark();
                case '2' -> push(peek());
                case 'N' -> push(None.NONE);
                case 0x88 -> push(new Bool(true));
                case 0x89 -> push(new Bool(false));
                case 'I' -> push(integerOrBool(line()));
                case 'J' -> push(integer(s4()));
                case 'K' -> push(integer(u1()));
                case 'M' -> push(integer(u2()));
                case 'L' -> push(new Int(number(line().replaceFirst("L$", ""))));
                case 0x8a -> push(new Int(littleEndian(u1())));
                case 0x8b -> push(new Int(littleEndian(s4())));
                case 'F' -> push(real(line()));
                case 'G' -> push(new Real(buffer(8).order(ByteOrder.BIG_ENDIAN).getDouble()));
                case 'S' -> push(new Text(quoted(line())));
                case 'T' -> push(new Text(new String(take(s4()), StandardCharsets.ISO_8859_1)));
                case 'U' -> push(new Text(new String(take(u1()), StandardCharsets.ISO_8859_1)));
                case 'V' -> push(new Text(rawUnicode(line())));
                case 'X' -> push(text(length4()));
                case 0x8c -> push(text(u1()));
                case 0x8d -> push(text(s8()));
                case 'B' -> push(new Blob(take(length4())));
                case 'C' -> push(new Blob(take(u1())));
                case 0x8e, 0x96 -> push(new Blob(take(s8())));
                case ')' -> push(new Sequence(Kind.TUPLE, new ArrayList<>()));
                case 't' -> push(new Sequence(Kind.TUPLE, popMark()));
                case 0x85 -> push(tuple(1));
                case 0x86 -> push(tuple(2));
                case 0x87 -> push(tuple(3));
                case ']' -> push(new Sequence(Kind.LIST, new ArrayList<>()));
                case 'l' -> push(new Sequence(Kind.LIST, popMark()));
                case 'a' -> {
                    PickleValue value = pop();
                    append(List.of(value));
                }
                case 'e' -> append(popMark());
                case '}' -> push(new Dict());
                case 'd' -> {
                    List<PickleValue> items = popMark();
                    Dict dict = new Dict();
                    putAll(dict, items);
                    push(dict);
                }
                case 's' -> {
                    PickleValue value = pop();
                    PickleValue key = pop();
                    putAll(dictOf(peek()), List.of(key, value));
                }
                case 'u' -> {
                    List<PickleValue> items = popMark();
                    putAll(dictOf(peek()), items);
                }
                case 0x8f -> push(new Sequence(Kind.SET, new ArrayList<>()));
                case 0x90 -> append(popMark());
                case 0x91 -> push(new Sequence(Kind.SET, popMark()));
                case 'g' -> push(recall(number(line()).longValue()));
                case 'h' -> push(recall(u1()));
                case 'j' -> push(recall(length4()));
                case 'p' -> remember(number(line()).longValue());
                case 'q' -> remember(u1());
                case 'r' -> remember(length4());
                case 0x94 -> remember(memo.size());
                case 'c' -> push(global(line(), line()));
                case 0x93 -> {
                    PickleValue name = pop();
                    PickleValue module = pop();
                    if (!(name instanceof Text(String n)) || !(module instanceof Text(String m))) {
                        throw damaged("the pickle names a class by something other than text");
                    }
                    push(global(m, n));
                }
                case 'R', 0x81 -> { // REDUCE, NEWOBJ
                    PickleValue arguments = pop();
                    push(object(pop(), arguments));
                }
                case 0x92 -> { // NEWOBJ_EX
                    PickleValue keywords = pop();
                    PickleValue arguments = pop();
                    if (!(keywords instanceof Dict dict) || !dict.items().isEmpty()) {
                        throw unsupported("the pickle makes an object from named arguments, which no tensor has");
                    }
                    push(object(pop(), arguments));
                }
                case 'i' -> { // INST
                    Global type = global(line(), line());
                    push(object(type, new Sequence(Kind.TUPLE, popMark())));
                }
                case 'o' -> { // OBJ
                    List<PickleValue> items = popMark();
                    if (items.isEmpty()) {
                        throw damaged("the pickle makes an object of no class");
                    }
                    push(object(items.getFirst(), new Sequence(Kind.TUPLE, items.subList(1, items.size()))));
                }
                case 'b' -> { // BUILD
                    PickleValue state = pop();
                    build(peek(), state);
                }
                case 'P' -> push(new Persistent(new Text(line())));
                case 'Q' -> push(new Persistent(pop()));
                case 0x82, 0x83, 0x84 ->
                    throw unsupported("the pickle uses the registry of extensions of the Python that wrote it");
                case 0x97, 0x98 -> throw unsupported("the pickle has buffers outside of it");
                default -> throw damaged(String.format("0x%02x at byte %d is no opcode of pickles", opcode, start));
            }
        }
    }

    private Sequence tuple(int count) {
        List<PickleValue> items = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            items.addFirst(pop());
        }
        return new Sequence(Kind.TUPLE, items);
    }

    private static Int integer(long value) {
        return new Int(BigInteger.valueOf(value));
    }

    private Global global(String module, String name) {
        Global global = Constructors.named(module, name);
        if (!Constructors.isKnown(global)) {
            throw unknown(global);
        }
        return global;
    }

    private UnsupportedModelException unknown(Global global) {
        String name = global.qualified();
        boolean module =
                name.startsWith("torch.nn.") || name.startsWith("__main__.") || name.startsWith("transformers.");
        return new UnsupportedModelException(
                "the pickle names " + name + ", which is not among the classes and functions that tensors need",
                where,
                module
                        ? "the file holds objects of a program; save its state_dict() instead, or safetensors"
                        : FIX_CODE);
    }

    /** What Python would make by a call; values of Python itself become themselves. */
    private PickleValue object(PickleValue type, PickleValue arguments) {
        if (!(arguments instanceof Sequence tuple) || tuple.kind() != Kind.TUPLE) {
            throw damaged("the pickle calls something with arguments that are no tuple");
        }
        List<PickleValue> given = tuple.items();
        if (!(type instanceof Global global)) {
            throw unsupported("the pickle calls what it made itself, which no tensor needs");
        }
        return switch (global.qualified()) {
            case "collections.OrderedDict", "collections.defaultdict", "builtins.dict" -> {
                Dict dict = new Dict();
                PickleValue last = given.isEmpty() ? None.NONE : given.getLast();
                if (last instanceof Sequence pairs) { // protocol 0 and old torch: a list of pairs
                    for (PickleValue pair : pairs.items()) {
                        if (!(pair instanceof Sequence p) || p.items().size() != 2) {
                            throw damaged("the pickle makes a dict of something other than pairs");
                        }
                        putAll(dict, p.items());
                    }
                }
                yield dict;
            }
            case "builtins.set", "builtins.frozenset" -> copy(Kind.SET, given);
            case "builtins.list" -> copy(Kind.LIST, given);
            case "builtins.tuple", "torch.Size" -> copy(Kind.TUPLE, given);
            case "_codecs.encode", "builtins.bytearray" -> encoded(given);
            default -> new Instance(global, given);
        };
    }

    private Sequence copy(Kind kind, List<PickleValue> given) {
        if (given.isEmpty()) {
            return new Sequence(kind, new ArrayList<>());
        }
        if (given.size() != 1 || !(given.getFirst() instanceof Sequence from)) {
            throw damaged("the pickle makes a sequence of something else");
        }
        count(from.items().size());
        return new Sequence(kind, new ArrayList<>(from.items()));
    }

    /** Bytes in protocols before 3: text whose characters are the bytes. */
    private Blob encoded(List<PickleValue> given) {
        if (given.isEmpty()) {
            return new Blob(new byte[0]);
        }
        return switch (given.getFirst()) {
            case Text(String text) -> {
                count(text.length() / Long.BYTES); // one text of the memo may be copied many times
                yield new Blob(text.getBytes(StandardCharsets.ISO_8859_1));
            }
            case Blob blob -> blob;
            default -> throw damaged("the pickle makes bytes of something else");
        };
    }

    private void build(PickleValue target, PickleValue state) {
        switch (target) {
            case Instance instance -> instance.setState(state);
            case Dict _ -> {} // attributes of an OrderedDict, such as a state dict's _metadata
            default -> throw damaged("the pickle gives a state to a value that has none");
        }
    }

    private void append(List<PickleValue> values) {
        if (!(peek() instanceof Sequence sequence) || sequence.kind() == Kind.TUPLE) {
            throw damaged("the pickle appends to a value that is no list");
        }
        count(values.size());
        sequence.items().addAll(values);
    }

    private Dict dictOf(PickleValue value) {
        return switch (value) {
            case Dict dict -> dict;
            case Instance instance -> instance.items();
            default -> throw damaged("the pickle puts an item into a value that is no dict");
        };
    }

    private void putAll(Dict dict, List<PickleValue> items) {
        if (items.size() % 2 != 0) {
            throw damaged("the pickle has a key without a value");
        }
        count(items.size());
        for (int i = 0; i < items.size(); i += 2) {
            dict.put(items.get(i), items.get(i + 1));
        }
    }

    private void push(PickleValue value) {
        count(1);
        stack.add(value);
    }

    private void count(long more) {
        values += more;
        if (values > limits.maxValues()) {
            throw damaged("the pickle has more than " + limits.maxValues() + " values");
        }
    }

    private int floor() {
        return marks.isEmpty() ? 0 : marks.getLast();
    }

    private PickleValue pop() {
        if (stack.size() <= floor()) {
            throw damaged("the pickle takes a value where there is none");
        }
        return stack.removeLast();
    }

    private PickleValue peek() {
        if (stack.size() <= floor()) {
            throw damaged("the pickle takes a value where there is none");
        }
        return stack.getLast();
    }

    private List<PickleValue> popMark() {
        if (marks.isEmpty()) {
            throw damaged("the pickle takes values from a mark that was not set");
        }
        List<PickleValue> tail = stack.subList(marks.removeLast(), stack.size());
        List<PickleValue> items = new ArrayList<>(tail);
        tail.clear();
        return items;
    }

    private void remember(long key) {
        if (key < 0 || key > Integer.MAX_VALUE) {
            throw damaged("the pickle keeps a value under the number " + key);
        }
        count(1);
        memo.put((int) key, peek());
    }

    private PickleValue recall(long key) {
        PickleValue value = key < 0 || key > Integer.MAX_VALUE ? null : memo.get((int) key);
        if (value == null) {
            throw damaged("the pickle takes value " + key + ", which it did not keep");
        }
        return value;
    }

    private int u1() {
        if (at >= bytes.length) {
            throw damaged("the pickle ends too early");
        }
        return bytes[at++] & 0xFF;
    }

    private int u2() {
        return Short.toUnsignedInt(buffer(2).getShort());
    }

    private int s4() {
        return buffer(4).getInt();
    }

    private long length4() {
        return Integer.toUnsignedLong(s4());
    }

    private long s8() {
        return buffer(8).getLong();
    }

    private ByteBuffer buffer(int count) {
        return ByteBuffer.wrap(take(count)).order(ByteOrder.LITTLE_ENDIAN);
    }

    private byte[] take(long count) {
        if (count < 0 || count > bytes.length - at) {
            throw damaged("the pickle has a value of " + count + " bytes, " + (bytes.length - at) + " are left");
        }
        byte[] part = Arrays.copyOfRange(bytes, at, at + (int) count);
        at += (int) count;
        return part;
    }

    private Text text(long count) {
        try {
            // Python writes lone surrogates as such; no name of a tensor has one
            return new Text(StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(take(count)))
                    .toString());
        } catch (CharacterCodingException e) {
            throw new MalformedModelException("the pickle has a text that is not UTF-8", where, FIX_DAMAGED, e);
        }
    }

    private String line() {
        int start = at;
        while (at < bytes.length && bytes[at] != '\n') {
            at++;
        }
        if (at >= bytes.length) {
            throw damaged("the pickle ends too early");
        }
        String text = new String(bytes, start, at - start, StandardCharsets.ISO_8859_1);
        at++;
        return text.endsWith("\r") ? text.substring(0, text.length() - 1) : text;
    }

    private PickleValue integerOrBool(String line) {
        return switch (line) {
            case "00" -> new Bool(false);
            case "01" -> new Bool(true);
            default -> new Int(number(line));
        };
    }

    private BigInteger number(String digits) {
        BigInteger value = digits.length() > 2 * limits.maxNumberBytes() ? null : parsed(digits);
        if (value == null) {
            throw damaged("'" + digits + "' is no integer of at most " + limits.maxNumberBytes() + " bytes");
        }
        return value;
    }

    private static @Nullable BigInteger parsed(String digits) {
        try {
            return new BigInteger(digits);
        } catch (NumberFormatException _) {
            return null;
        }
    }

    private Real real(String text) {
        try {
            return new Real(Double.parseDouble(text));
        } catch (NumberFormatException e) {
            throw new MalformedModelException("'" + text + "' is no number", where, FIX_DAMAGED, e);
        }
    }

    private BigInteger littleEndian(int count) {
        if (count < 0 || count > limits.maxNumberBytes()) {
            throw damaged("the pickle has an integer of " + count + " bytes, at most " + limits.maxNumberBytes()
                    + " are read");
        }
        byte[] little = take(count);
        byte[] big = new byte[count];
        for (int i = 0; i < count; i++) {
            big[i] = little[count - 1 - i];
        }
        return count == 0 ? BigInteger.ZERO : new BigInteger(big);
    }

    /** A string of protocol 0 between quotes. */
    private String quoted(String line) {
        String text = line.strip();
        boolean quotes = text.length() >= 2
                && (text.charAt(0) == '\'' || text.charAt(0) == '"')
                && text.charAt(text.length() - 1) == text.charAt(0);
        if (!quotes || text.indexOf('\\') >= 0) {
            throw unsupported("the pickle has a string of protocol 0 with escapes or without quotes");
        }
        return text.substring(1, text.length() - 1);
    }

    private String rawUnicode(String line) {
        if (line.indexOf('\\') >= 0) {
            throw unsupported("the pickle has a text of protocol 0 with escapes");
        }
        return line;
    }

    private MalformedModelException damaged(String what) {
        return new MalformedModelException(what, where, FIX_DAMAGED);
    }

    private UnsupportedModelException unsupported(String what) {
        return new UnsupportedModelException(what, where, FIX_CODE);
    }
}
