package dev.octet.formats.peft;

import java.util.Arrays;
import java.util.List;

/**
 * Names of an adapter's tensors: {@code base_model.model.} + path of the module in the base + suffix of the role, without the name that the
 * adapter had in the program that saved it.
 */
public final class PeftKeys {
    /** What every key begins with, except that of virtual tokens. */
    public static final String PREFIX = "base_model.model.";

    /** Roles with a suffix, found first. */
    private static final List<PeftRole> SUFFIXED = Arrays.stream(PeftRole.values())
            .filter(role -> role != PeftRole.SAVED && role != PeftRole.PROMPT)
            .toList();

    /** The old spelling of DoRA's norms, of trainers that saved the state themselves. */
    private static final String OLD_MAGNITUDE = PeftRole.LORA_MAGNITUDE.suffix() + ".weight";

    private PeftKeys() {}

    /**
     * What a key means.
     *
     * @param module path in the base; for {@link PeftRole#SAVED} the path of the parameter, for {@link PeftRole#PROMPT} empty. Where an
     *     adapter has products for several parameters of one module, PEFT wraps the module several times, and the path ends in {@code
     *     .base_layer} once for each wrapper outside
     */
    public record Place(String module, PeftRole role) {
        /** The key in {@code adapter_model.safetensors}. */
        public String key() {
            return PeftKeys.key(module, role);
        }
    }

    /**
     * The key of a tensor.
     *
     * @param module path in the base, for example {@code model.layers.0.self_attn.q_proj}; for {@link PeftRole#SAVED} the path of the
     *     parameter, for {@link PeftRole#PROMPT} ignored
     */
    public static String key(String module, PeftRole role) {
        return role == PeftRole.PROMPT ? role.suffix() : PREFIX + module + role.suffix();
    }

    /** What a key means; a key without {@link #PREFIX} is read as if it had one. */
    public static Place parse(String key) {
        if (key.equals(PeftRole.PROMPT.suffix())) {
            return new Place("", PeftRole.PROMPT);
        }
        String path = key.startsWith(PREFIX) ? key.substring(PREFIX.length()) : key;
        for (PeftRole role : SUFFIXED) {
            if (path.endsWith(role.suffix())) {
                return new Place(path.substring(0, path.length() - role.suffix().length()), role);
            }
        }
        if (path.endsWith(OLD_MAGNITUDE)) {
            return new Place(path.substring(0, path.length() - OLD_MAGNITUDE.length()), PeftRole.LORA_MAGNITUDE);
        }
        return new Place(path, PeftRole.SAVED);
    }
}
