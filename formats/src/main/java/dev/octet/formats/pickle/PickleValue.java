package dev.octet.formats.pickle;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A value of a pickle. Values may be shared and may contain themselves, as in Python; so containers are equal only to themselves, and whoever walks through them
 * must count its steps.
 */
public sealed interface PickleValue {
    /** {@code None}. */
    enum None implements PickleValue {
        /** The only one. */
        NONE
    }

    /** {@code True} or {@code False}. */
    record Bool(boolean value) implements PickleValue {}

    /** An integer of any size. */
    record Int(BigInteger value) implements PickleValue {}

    /** A {@code float}. */
    record Real(double value) implements PickleValue {}

    /** A {@code str}. */
    record Text(String value) implements PickleValue {}

    /** {@code bytes} or {@code bytearray}; callers must not change it. */
    final class Blob implements PickleValue {
        private final byte[] value;

        Blob(byte[] value) {
            this.value = value;
        }

        /** The bytes, not a copy. */
        public byte[] value() {
            return value;
        }
    }

    /** What kind of sequence. */
    enum Kind {
        /** {@code tuple}, and {@code torch.Size}. */
        TUPLE,
        /** {@code list}. */
        LIST,
        /** {@code set} or {@code frozenset}. */
        SET
    }

    /** A tuple, list or set. */
    final class Sequence implements PickleValue {
        private final Kind kind;
        private final List<PickleValue> items;

        Sequence(Kind kind, List<PickleValue> items) {
            this.kind = kind;
            this.items = items;
        }

        /** What kind. */
        public Kind kind() {
            return kind;
        }

        /** Its elements; callers must not change them. */
        public List<PickleValue> items() {
            return items;
        }
    }

    /** A key and its value. */
    record Item(PickleValue key, PickleValue value) {}

    /** A {@code dict}, {@code OrderedDict} or {@code defaultdict}. */
    final class Dict implements PickleValue {
        private final List<Item> items = new ArrayList<>();
        private final Map<String, Integer> byText = new HashMap<>();

        /** A later value of the same text takes the earlier one's place, as in Python. */
        void put(PickleValue key, PickleValue value) {
            if (key instanceof Text(String text)) {
                Integer at = byText.putIfAbsent(text, items.size());
                if (at != null) {
                    items.set(at, new Item(key, value));
                    return;
                }
            }
            items.add(new Item(key, value));
        }

        /** In the order of insertion; keys that are not text may be there twice. */
        public List<Item> items() {
            return items;
        }

        /** The value of a text; null without it. */
        public @Nullable PickleValue get(String key) {
            Integer at = byText.get(key);
            return at == null ? null : items.get(at).value();
        }
    }

    /**
     * A class or function, by name; never called.
     *
     * @param module for example {@code torch._utils}
     * @param name for example {@code _rebuild_tensor_v2}
     */
    record Global(String module, String name) implements PickleValue {
        /** For example {@code torch._utils._rebuild_tensor_v2}. */
        public String qualified() {
            return module + "." + name;
        }
    }

    /** An object: what would be called, with what, and the state that it would get. */
    final class Instance implements PickleValue {
        private final Global type;
        private final List<PickleValue> arguments;
        private final Dict items = new Dict();
        private @Nullable PickleValue state;

        /** An object that a call of {@code type} with these arguments would make. */
        public Instance(Global type, List<PickleValue> arguments) {
            this.type = type;
            this.arguments = arguments;
        }

        /** The class or function. */
        public Global type() {
            return type;
        }

        /** Its arguments. */
        public List<PickleValue> arguments() {
            return arguments;
        }

        /** Its state, usually a {@link Dict} of its fields; null without one. */
        public @Nullable PickleValue state() {
            return state;
        }

        void setState(PickleValue newState) {
            this.state = newState;
        }

        /** What was put into it as into a dict. */
        public Dict items() {
            return items;
        }

        /** A field of its state; null where it has none of this name. */
        public @Nullable PickleValue field(String name) {
            return state instanceof Dict dict ? dict.get(name) : null;
        }
    }

    /** Something outside of the pickle, such as the storage of a tensor. */
    record Persistent(PickleValue id) implements PickleValue {}
}
