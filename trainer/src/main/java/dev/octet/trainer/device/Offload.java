package dev.octet.trainer.device;

import dev.octet.trainer.activation.Home;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/**
 * What a run keeps off the memory that it computes in, as ZeRO-Offload (Ren et al., arXiv:2101.06840) and ZeRO-Infinity (Rajbhandari et al.,
 * arXiv:2104.07857) do: the numbers of a run are the same, byte for byte.
 *
 * @param states where optimizer states (moments, averages) and those master weights lie that neither forward nor backward reads
 * @param parameters where all other weights lie
 * @param activations where large values lie between forward and backward, see {@link Home}
 * @param folder of mapped files, for {@link Place#DISK}; exists
 */
public record Offload(Place states, Place parameters, Home activations, Optional<Path> folder) {
    /** Bytes below which a value stays on the device. */
    public static final long LEAST_BYTES = Home.LEAST_BYTES;

    /** All stays on the device. */
    public static final Offload NONE = new Offload(Place.DEVICE, Place.DEVICE, Home.DEVICE, Optional.empty());

    /** Where values lie between the steps that use them. */
    public enum Place {
        /** In the memory of the device. */
        DEVICE,
        /** In pinned memory of the host. */
        HOST,
        /** In files mapped into memory. */
        DISK
    }

    /** @throws IllegalArgumentException when there is no folder for what lies on disk */
    public Offload {
        if ((states == Place.DISK || parameters == Place.DISK) && folder.isEmpty()) {
            throw new IllegalArgumentException("no folder for what is on disk");
        }
    }

    /** Whether anything lies elsewhere. */
    public boolean isOn() {
        return !equals(NONE);
    }

    /** Whether some values lie there. */
    public boolean uses(Place place) {
        return states == place || parameters == place || (place == Place.HOST && activations == Home.HOST);
    }

    /**
     * The lasting values of a program that lie at {@code place} between their uses. A value that a program for other shapes admitted before stays where it is.
     */
    public Set<Value> valuesAt(Place place, Program program) {
        if (states != place && parameters != place) {
            return Set.of();
        }
        Set<Value> computing = computing(program);
        Set<Value> values = new LinkedHashSet<>();
        for (Value v : program.lasting()) {
            if (v.type().byteSize() >= LEAST_BYTES && of(v.role(), computing.contains(v)) == place) {
                values.add(v);
            }
        }
        return values;
    }

    private Place of(ValueRole role, boolean computing) {
        return switch (role) {
            case STATE -> computing ? Place.DEVICE : states;
            case PARAMETER -> computing || states == Place.DEVICE ? parameters : states;
            case INPUT, STORED, CONSTANT, GRADIENT, PREPARED, TEMPORARY, HOSTED -> Place.DEVICE;
        };
    }

    /**
     * What it comes to, in words.
     *
     * @param bytes that lie off the device
     */
    public String text(long bytes) {
        List<String> kinds = new ArrayList<>();
        if (states != Place.DEVICE) {
            kinds.add("states and masters " + text(states));
        }
        if (parameters != Place.DEVICE) {
            kinds.add("other weights " + text(parameters));
        }
        if (activations == Home.HOST) {
            kinds.add("activations " + text(Place.HOST));
        }
        return String.format(
                Locale.ROOT,
                "offload: %.1f MiB off the device: %s",
                bytes / (double) (1 << 20),
                String.join(", ", kinds));
    }

    private String text(Place place) {
        return switch (place) {
            case DEVICE -> "on the device";
            case HOST -> "in pinned memory of the host";
            case DISK -> "in files in " + folder.orElseThrow();
        };
    }

    /** Values that forward or backward touch. */
    private static Set<Value> computing(Program program) {
        Set<Value> values = new LinkedHashSet<>();
        for (Step s : program.steps()) {
            if (s.phase() == Phase.FORWARD || s.phase() == Phase.BACKWARD) {
                values.addAll(s.operands());
            }
        }
        return values;
    }
}
