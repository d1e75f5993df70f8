/** The command line. */
module dev.octet.cli {
    requires dev.octet.converter;
}
