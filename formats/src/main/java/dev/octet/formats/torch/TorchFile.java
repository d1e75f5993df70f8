package dev.octet.formats.torch;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.model.Pieces;
import dev.octet.formats.pickle.PickleLimits;
import dev.octet.formats.pickle.PickleValue;
import dev.octet.formats.pickle.PickleValue.Blob;
import dev.octet.formats.pickle.PickleValue.Bool;
import dev.octet.formats.pickle.PickleValue.Global;
import dev.octet.formats.pickle.PickleValue.Instance;
import dev.octet.formats.pickle.PickleValue.Int;
import dev.octet.formats.pickle.PickleValue.Persistent;
import dev.octet.formats.pickle.PickleValue.Sequence;
import dev.octet.formats.pickle.PickleValue.Text;
import dev.octet.formats.pickle.Unpickler;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** What {@code torch.save} wrote: an object, and the tensors in it by position. Source: torch/serialization.py, torch/_utils.py. */
public final class TorchFile {
    private static final byte[] ZIP = {'P', 'K', 3, 4};
    private static final byte PROTO = (byte) 0x80;
    private static final byte LONG1 = (byte) 0x8a;
    /** The integer that the older form begins with: 0x1950a86a20f9469cfc6c, little-endian in a LONG1 of ten bytes. */
    private static final byte[] LEGACY_MAGIC = {
        LONG1, 10, 0x6c, (byte) 0xfc, (byte) 0x9c, 0x46, (byte) 0xf9, 0x20, 0x6a, (byte) 0xa8, 0x50, 0x19
    };

    /** Longest beginning that is read of the older form; the pickles end before it. */
    private static final long LEGACY_PICKLE_BYTES = 256L << 20;

    private static final int MAX_RANK = 64;

    /** What {@code pickle.dumps} calls to make a storage of the bytes that {@code torch.save} made of it. */
    private static final String LOAD_FROM_BYTES = "torch.storage._load_from_bytes";

    /** Of the file of one storage, which names it and lists it. */
    private static final PickleLimits NESTED = new PickleLimits(64L << 20, 1L << 10, 64);

    private static final String FIX = "copy or save the file again";

    private final FilePart part;
    private final PickleValue root;
    private final Map<String, FilePart> storages;
    private final @Nullable StoredZip zip;
    private final String prefix;
    /** Whether the pickle holds the storages of its tensors, which those of {@code torch.save} never do. */
    private final boolean plain;

    private TorchFile(
            FilePart part,
            PickleValue root,
            Map<String, FilePart> storages,
            @Nullable StoredZip zip,
            String prefix,
            boolean plain) {
        this.plain = plain;
        this.part = part;
        this.root = root;
        this.storages = storages;
        this.zip = zip;
        this.prefix = prefix;
    }

    /** Whether a file begins as one that {@code torch.save} wrote: as a zip archive or with the older form's number. */
    public static boolean isHead(Path file) throws IOException {
        byte[] head = MappedFile.head(file, 2 + LEGACY_MAGIC.length);
        return startsWith(head, 0, ZIP) || isLegacy(head);
    }

    private static boolean isLegacy(byte[] head) {
        return head.length >= 2 + LEGACY_MAGIC.length && head[0] == PROTO && startsWith(head, 2, LEGACY_MAGIC);
    }

    private static boolean startsWith(byte[] bytes, int from, byte[] magic) {
        return bytes.length >= from + magic.length
                && Arrays.equals(bytes, from, from + magic.length, magic, 0, magic.length);
    }

    /** Whether a zip archive is one of {@code torch.save}, by its members; false for what is no whole archive. */
    public static boolean isArchive(FilePart part) throws IOException {
        try {
            return pickleOf(StoredZip.open(part)).isPresent();
        } catch (MalformedModelException _) {
            return false;
        }
    }

    /**
     * Reads the object. Tensors are not read.
     *
     * @throws MalformedModelException when the file is damaged, or what the pickle says of a tensor contradicts the storages
     * @throws UnsupportedModelException when the pickle names what no tensor needs, or the file has another byte order
     * @throws IOException when it cannot be read
     */
    public static TorchFile open(FilePart part) throws IOException {
        return open(part, PickleLimits.DEFAULT);
    }

    private static TorchFile open(FilePart part, PickleLimits limits) throws IOException {
        byte[] head = part.bytes(0, Math.min(part.length(), 2 + LEGACY_MAGIC.length));
        if (startsWith(head, 0, ZIP)) {
            return ofZip(part, limits);
        }
        if (isLegacy(head)) {
            return ofLegacy(part, limits);
        }
        throw new MalformedModelException(
                "the file is not one of torch.save: it begins neither as a zip archive nor as a pickle of torch",
                part.file().toString(),
                FIX);
    }

    /**
     * Reads an object that was saved to memory: by {@code torch.save}, or by {@code pickle.dumps}, which saves the storage of each tensor apart.
     *
     * @param file that the bytes come from, for messages
     */
    static TorchFile ofBytes(byte[] bytes, Path file, PickleLimits limits) throws IOException {
        if (startsWith(bytes, 0, ZIP) || isLegacy(bytes)) {
            return open(FilePart.of(bytes, file), limits);
        }
        PickleValue root = Unpickler.read(bytes, 0, file.toString(), limits).value();
        return new TorchFile(FilePart.of(bytes, file), root, new HashMap<>(), null, "", true);
    }

    private static Optional<String> pickleOf(StoredZip zip) {
        for (String name : zip.names()) {
            if (name.equals("data.pkl") || name.endsWith("/data.pkl")) {
                return Optional.of(name);
            }
        }
        return Optional.empty();
    }

    private static TorchFile ofZip(FilePart part, PickleLimits limits) throws IOException {
        StoredZip zip = StoredZip.open(part);
        String where = part.file().toString();
        String pickle = pickleOf(zip)
                .orElseThrow(() -> new UnsupportedModelException(
                        "the file is a zip archive without data.pkl, so not one of torch.save",
                        where,
                        "give a file of torch.save; TorchScript and NumPy archives are not read"));
        if (zip.has(pickle.substring(0, pickle.length() - "data.pkl".length()) + "constants.pkl")) {
            throw new UnsupportedModelException(
                    "the file is a TorchScript program, not a state dict",
                    where,
                    "save the program's state_dict() with torch.save, or safetensors");
        }
        String prefix = pickle.substring(0, pickle.length() - "data.pkl".length());
        if (zip.has(prefix + "byteorder")) {
            FilePart order = zip.member(prefix + "byteorder");
            String text = new String(order.bytes(0, Math.min(order.length(), 16)), StandardCharsets.US_ASCII);
            if (!text.equals("little")) {
                throw bigEndian(where);
            }
        }
        FilePart data = zip.member(pickle);
        PickleValue root =
                Unpickler.read(data.bytes(0, data.length()), 0, where, limits).value();
        return new TorchFile(part, root, new HashMap<>(), zip, prefix, false);
    }

    private static UnsupportedModelException bigEndian(String where) {
        return new UnsupportedModelException(
                "the file was written on a machine with big-endian numbers", where, "save it again on another machine");
    }

    /** Magic number, protocol, facts of the machine, object, keys of the storages; then each storage: number of elements, elements. */
    private static TorchFile ofLegacy(FilePart part, PickleLimits limits) throws IOException {
        String where = part.file().toString();
        byte[] bytes = part.bytes(0, Math.min(part.length(), LEGACY_PICKLE_BYTES));
        Unpickler.Result magic = Unpickler.read(bytes, 0, where, limits);
        Unpickler.Result protocol = Unpickler.read(bytes, magic.end(), where, limits);
        if (!(protocol.value() instanceof Int(BigInteger version)) || version.intValue() != 1001) {
            throw new UnsupportedModelException(
                    "the file has a version of torch's older form that is not known",
                    where,
                    "save it again with torch");
        }
        Unpickler.Result machine = Unpickler.read(bytes, protocol.end(), where, limits);
        if (machine.value() instanceof PickleValue.Dict facts
                && facts.get("little_endian") instanceof Bool(boolean little)
                && !little) {
            throw bigEndian(where);
        }
        Unpickler.Result object = Unpickler.read(bytes, machine.end(), where, limits);
        Unpickler.Result keys = Unpickler.read(bytes, object.end(), where, limits);
        if (!(keys.value() instanceof Sequence list)) {
            throw new MalformedModelException("the file does not list its storages", where, FIX);
        }
        Map<String, Integer> widths = new HashMap<>();
        collect(object.value(), widths, new Walk(where));
        Map<String, FilePart> storages = new HashMap<>();
        long at = keys.end();
        for (PickleValue key : list.items()) {
            Integer width = key instanceof Text(String k) ? widths.get(k) : null;
            if (!(key instanceof Text(String k)) || width == null) {
                throw new MalformedModelException("the file lists a storage that no tensor has", where, FIX);
            }
            long count = ByteBuffer.wrap(part.bytes(at, Long.BYTES))
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .getLong();
            at += Long.BYTES;
            if (count < 0 || count > (part.length() - at) / width) {
                throw new MalformedModelException(
                        "storage '" + k + "' of " + count + " elements reaches beyond the end of the file", where, FIX);
            }
            storages.put(k, part.part(at, count * width));
            at += count * width;
        }
        return new TorchFile(part, object.value(), storages, null, "", false);
    }

    /** Counts the steps of a walk through values that may contain themselves. */
    private static final class Walk {
        private static final int MAX_DEPTH = 64;
        private static final long MAX_STEPS = 1L << 24;

        private final String where;
        private long steps;

        Walk(String where) {
            this.where = where;
        }

        void step(int depth) {
            if (++steps > MAX_STEPS || depth > MAX_DEPTH) {
                throw new MalformedModelException(
                        "the pickle's values are nested without end, or more than " + MAX_STEPS, where, FIX);
            }
        }
    }

    /** Finds the width of elements of each storage; in the older form, nothing else says how long a storage is. */
    private static void collect(PickleValue value, Map<String, Integer> widths, Walk walk) {
        collect(value, widths, walk, 0);
    }

    private static void collect(PickleValue value, Map<String, Integer> widths, Walk walk, int depth) {
        walk.step(depth);
        switch (value) {
            case Persistent p -> {
                Storage storage = storage(p, walk.where);
                widths.put(
                        storage.key(),
                        storage.dtype() == null ? 1 : storage.dtype().bits() / Byte.SIZE);
            }
            case Sequence s -> s.items().forEach(i -> collect(i, widths, walk, depth + 1));
            case PickleValue.Dict d -> d.items().forEach(i -> collect(i.value(), widths, walk, depth + 1));
            case Instance i -> i.arguments().forEach(a -> collect(a, widths, walk, depth + 1));
            default -> {}
        }
    }

    /** The saved object. */
    public PickleValue root() {
        return root;
    }

    /** The file, for messages. */
    public Path file() {
        return part.file();
    }

    /** Whether a value is a tensor. */
    public static boolean isTensor(PickleValue value) {
        return value instanceof Instance i
                && switch (i.type().qualified()) {
                    case "torch._utils._rebuild_tensor",
                            "torch._utils._rebuild_tensor_v2",
                            "torch._utils._rebuild_tensor_v3",
                            "torch._utils._rebuild_parameter",
                            "torch._utils._rebuild_parameter_with_state",
                            "torch._tensor._rebuild_from_type_v2" -> true;
                    default -> false;
                };
    }

    /**
     * The tensor that a value is.
     *
     * @param value one that {@link #isTensor}
     * @param name for messages
     * @throws MalformedModelException when its elements lie outside of its storage, or its storage is not there
     * @throws UnsupportedModelException when Octet has no tensors of its type
     */
    public TorchTensor tensor(PickleValue value, String name) throws IOException {
        return tensor(name, view(value, name));
    }

    /**
     * A tensor in memory.
     *
     * @param elements row-major, little-endian
     */
    @SuppressWarnings("ArrayRecordComponent") // compared by nobody
    record SmallTensor(DType dtype, Shape shape, byte[] elements) {}

    /**
     * A small tensor, also one whose storage is pickled with it.
     *
     * @param value one that {@link #isTensor}
     * @param most bytes that are read
     * @throws MalformedModelException as {@link #tensor}, or when its storage is larger than {@code most}
     */
    SmallTensor small(PickleValue value, String name, long most) throws IOException {
        View view = view(value, name);
        TorchTensor tensor = tensor(name, view);
        long bytes = tensor.spec(name).byteSize();
        if (bytes == 0) {
            return new SmallTensor(tensor.dtype(), tensor.shape(), new byte[0]);
        }
        FilePart storage = view.holder.bytes(view.storage, name);
        if (bytes > most || storage.length() > most) {
            throw broken(name, "has " + Math.max(bytes, storage.length()) + " bytes, at most " + most + " are read");
        }
        byte[] from = storage.bytes(0, storage.length());
        byte[] elements = new byte[(int) bytes];
        int width = view.dtype.bits() / Byte.SIZE;
        long[] index = new long[view.dims.length];
        for (int to = 0; to < elements.length; to += width) {
            long at = view.offset;
            for (int k = 0; k < index.length; k++) {
                at += index[k] * view.strides[k];
            }
            System.arraycopy(from, (int) (at * width), elements, to, width);
            for (int k = index.length - 1; k >= 0 && ++index[k] == view.dims[k]; k--) {
                index[k] = 0;
            }
        }
        return new SmallTensor(tensor.dtype(), tensor.shape(), elements);
    }

    /**
     * The bytes in an {@code io.BytesIO} or a tensor of bytes, in which programs save what they saved before.
     *
     * @param most bytes that are read
     * @throws MalformedModelException when it is neither
     */
    public byte[] bufferOrTensor(PickleValue value, String name, long most) throws IOException {
        if (isTensor(value)) {
            SmallTensor tensor = small(value, name, most);
            if (tensor.dtype() == DType.U8 || tensor.dtype() == DType.I8) {
                return tensor.elements();
            }
        }
        if (value instanceof Instance buffer
                && buffer.type().qualified().equals("_io.BytesIO")
                && buffer.state() instanceof Sequence state
                && !state.items().isEmpty()
                && state.items().getFirst() instanceof Blob blob
                && blob.value().length <= most) {
            return blob.value();
        }
        throw broken(name, "holds no bytes");
    }

    /**
     * What a pickle says of a tensor.
     *
     * @param strides in elements
     * @param offset of its first element in its storage, in elements
     * @param holder the file that its storage lies in
     */
    @SuppressWarnings("ArrayRecordComponent") // compared by nobody
    private record View(DType dtype, long[] dims, long[] strides, long offset, Storage storage, TorchFile holder) {}

    private View view(PickleValue value, String name) throws IOException {
        Instance instance = unwrapped(value, name);
        List<PickleValue> given = instance.arguments();
        String type = instance.type().name();
        if (given.size() < 4) {
            throw broken(name, "is not made as torch makes tensors (" + type + ")");
        }
        TorchFile holder = this;
        PickleValue stored = given.getFirst();
        if (stored instanceof Instance call && call.type().qualified().equals(LOAD_FROM_BYTES)) {
            holder = nested(call, name);
            stored = holder.root;
        }
        if (!(stored instanceof Persistent persistent)) {
            throw broken(name, "is not made as torch makes tensors (" + type + ")");
        }
        Storage storage = storage(persistent, part.file().toString());
        DType dtype = storage.dtype();
        if (type.equals("_rebuild_tensor_v3") && given.size() > 6 && given.get(6) instanceof Global global) {
            dtype = TorchTypes.ofDtype(global).orElse(null);
        }
        if (dtype == null) {
            throw new UnsupportedModelException(
                    "tensor '" + name + "' has elements of a type that is not read: "
                            + storage.type().qualified(),
                    part.file().toString(),
                    "save it as another type");
        }
        return new View(
                dtype,
                numbers(given.get(2), name),
                numbers(given.get(3), name),
                number(given.get(1), name),
                storage,
                holder);
    }

    /** The file that {@code pickle.dumps} makes of a tensor's storage; one cannot lie in another. */
    private TorchFile nested(Instance call, String name) throws IOException {
        if (!plain) {
            throw broken(name, "has its storage in the pickle of a file that has storages of its own");
        }
        if (call.arguments().size() != 1 || !(call.arguments().getFirst() instanceof Blob blob)) {
            throw broken(name, "has a storage of something other than bytes");
        }
        return open(FilePart.of(blob.value(), part.file()), NESTED);
    }

    private Instance unwrapped(PickleValue value, String name) {
        PickleValue inner = value;
        for (int i = 0; i < 4; i++) {
            if (!(inner instanceof Instance instance) || !isTensor(instance)) {
                break;
            }
            switch (instance.type().name()) {
                case "_rebuild_parameter", "_rebuild_parameter_with_state" -> {
                    if (instance.arguments().isEmpty()) {
                        throw broken(name, "is a parameter of nothing");
                    }
                    inner = instance.arguments().getFirst();
                }
                case "_rebuild_from_type_v2" -> { // (function, class, its arguments, state)
                    if (instance.arguments().size() < 3
                            || !(instance.arguments().get(0) instanceof Global function)
                            || !(instance.arguments().get(2) instanceof Sequence arguments)) {
                        throw broken(name, "is not made as torch makes tensors (_rebuild_from_type_v2)");
                    }
                    inner = new Instance(function, arguments.items());
                }
                default -> {
                    return instance;
                }
            }
        }
        throw broken(name, "is no tensor");
    }

    private TorchTensor tensor(String name, View view) throws IOException {
        DType dtype = view.dtype;
        long[] dims = view.dims;
        long[] strides = view.strides;
        long offset = view.offset;
        int width = dtype.bits() / Byte.SIZE;
        if (dims.length != strides.length || dims.length > MAX_RANK || offset < 0) {
            throw broken(name, "has shape " + Arrays.toString(dims) + " and strides " + Arrays.toString(strides));
        }
        try {
            Shape shape = Shape.of(dims);
            long last = offset;
            for (int k = 0; k < dims.length; k++) {
                if (strides[k] < 0) {
                    throw broken(name, "has strides " + Arrays.toString(strides));
                }
                last = Math.addExact(last, Math.multiplyExact(Math.max(0, dims[k] - 1), strides[k]));
            }
            long end = Math.multiplyExact(Math.addExact(last, 1), width);
            Math.multiplyExact(shape.elementCount(), width);
            if (shape.elementCount() == 0) {
                return new TorchTensor(dtype, shape, Pieces.of(part.file(), 0, dtype, shape));
            }
            FilePart bytes = view.holder.bytes(view.storage, name);
            if (end > bytes.length()) {
                throw broken(
                        name,
                        "of shape " + shape + " reaches byte " + end + " of its storage, which has " + bytes.length());
            }
            return new TorchTensor(
                    dtype, shape, Pieces.of(bytes.file(), bytes.from() + offset * width, dtype, shape, strides));
        } catch (ArithmeticException | IllegalArgumentException e) {
            throw new MalformedModelException(
                    "tensor '" + name + "' has the impossible shape " + Arrays.toString(dims),
                    part.file().toString(),
                    FIX,
                    e);
        }
    }

    private FilePart bytes(Storage storage, String name) throws IOException {
        FilePart found = storages.get(storage.key());
        if (found == null && zip != null) {
            found = zip.member(prefix + "data/" + storage.key());
            storages.put(storage.key(), found);
        }
        if (found == null) {
            throw broken(name, "has storage '" + storage.key() + "', which is not in the file");
        }
        long width = storage.dtype() == null ? 1 : storage.dtype().bits() / Byte.SIZE;
        if (storage.count() < 0 || storage.count() > found.length() / width) {
            throw broken(
                    name,
                    "has a storage of " + storage.count() + " elements, the file has " + found.length()
                            + " bytes of it");
        }
        return found.part(0, storage.count() * width);
    }

    /**
     * What a pickle says of a storage.
     *
     * @param dtype of its elements; null for bytes, and for types that are not read
     */
    private record Storage(Global type, @Nullable DType dtype, String key, long count) {}

    private static Storage storage(Persistent persistent, String where) {
        if (persistent.id() instanceof Sequence id
                && id.items().size() >= 5
                && id.items().get(0) instanceof Text(String tag)
                && tag.equals("storage")
                && id.items().get(1) instanceof Global type
                && id.items().get(2) instanceof Text(String key)
                && id.items().get(4) instanceof Int(BigInteger count)
                && count.bitLength() < Long.SIZE
                && (TorchTypes.isUntyped(type) || type.name().endsWith("Storage"))) {
            boolean view = id.items().size() > 5 && id.items().get(5) instanceof Sequence;
            if (!view) {
                return new Storage(type, TorchTypes.ofStorage(type).orElse(null), key, count.longValue());
            }
        }
        throw new MalformedModelException("the pickle refers to something that is no storage of torch", where, FIX);
    }

    private long[] numbers(PickleValue value, String name) {
        if (!(value instanceof Sequence sequence) || sequence.items().size() > MAX_RANK) {
            throw broken(name, "has no shape");
        }
        long[] numbers = new long[sequence.items().size()];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = number(sequence.items().get(i), name);
        }
        return numbers;
    }

    private long number(PickleValue value, String name) {
        if (value instanceof Int(BigInteger number) && number.bitLength() < Long.SIZE) {
            return number.longValue();
        }
        throw broken(name, "has a size that is no number");
    }

    private MalformedModelException broken(String name, String what) {
        return new MalformedModelException(
                "tensor '" + name + "' " + what, part.file().toString(), FIX);
    }
}
