package dev.octet.formats.onnx;

import dev.octet.formats.error.MalformedModelException;
import org.jspecify.annotations.Nullable;

/** A place in a model for messages: file, graph, node, attribute. Builds its text only on demand. */
record Place(@Nullable Place outer, String kind, String name) {
    static Place file(String name) {
        return new Place(null, "", name);
    }

    Place in(String innerKind, String innerName) {
        return new Place(this, innerKind, innerName);
    }

    MalformedModelException malformed(String what, String fix) {
        return new MalformedModelException(what, toString(), fix);
    }

    MalformedModelException malformed(String what, String fix, Throwable cause) {
        return new MalformedModelException(what, toString(), fix, cause);
    }

    @Override
    public String toString() {
        return outer == null ? name : outer + ", " + kind + " '" + name + "'";
    }
}
