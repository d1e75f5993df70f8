package dev.octet.trainer.config;

import dev.octet.trainer.activation.Home;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.device.Offload.Place;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/** Reads {@code offload: {states: host | disk, parameters: host | disk, activations: host, path: DIR}}. */
final class OffloadConfig {
    private static final Map<String, Place> PLACES =
            Map.of("none", Place.DEVICE, "host", Place.HOST, "disk", Place.DISK);

    private static final Map<String, Home> HOMES = Map.of("none", Home.DEVICE, "host", Home.HOST);

    private OffloadConfig() {}

    /** @param folder base of a relative path */
    static Offload read(Section s, Path folder) {
        Place states = s.choice("states", PLACES, Place.DEVICE);
        Place parameters = s.choice("parameters", PLACES, Place.DEVICE);
        Home activations = s.choice("activations", HOMES, Home.DEVICE);
        boolean onDisk = states == Place.DISK || parameters == Place.DISK;
        Optional<Path> path = s.path("path", folder);
        if (onDisk && path.isEmpty()) {
            throw s.error(
                    states == Place.DISK ? "states" : "parameters",
                    "there is no folder for what lies on disk",
                    "add path: DIR, an existing folder on a fast local disk");
        }
        if (!onDisk && path.isPresent()) {
            throw s.error("path", "nothing lies on disk", "leave path out, or set states: disk");
        }
        return new Offload(states, parameters, activations, path);
    }
}
