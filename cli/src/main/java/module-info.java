/** The command line. */
module dev.octet.cli {
    requires transitive org.jspecify;
    requires transitive dev.octet.converter;
    requires transitive dev.octet.trainer;
    requires transitive dev.octet.pipeline;
    requires org.apache.commons.cli;
    requires com.fasterxml.jackson.annotation;
    requires com.fasterxml.jackson.databind;

    exports dev.octet.cli;

    // JSON answers are records of this package
    opens dev.octet.cli to
            com.fasterxml.jackson.databind;
}
