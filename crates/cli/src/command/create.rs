//! `create`: makes the image of a new simulated drive.

use ssdlab_attach::image::Image;
use ssdlab_lab::Target;

use crate::cli::CreateArguments;
use crate::failure::{Exit, Failure};
use crate::output_file::CreatedDirectories;
use crate::terminal::Terminal;

/// Makes the image of a new drive.
pub fn create(arguments: &CreateArguments, terminal: &Terminal) -> Result<(), Failure> {
    let text = &arguments.target;
    let Target::Simulated { name, profile } = Target::seeded(text, arguments.seed.number)? else {
        return Err(Failure::usage(format!(
            "'{text}' is not a new simulated drive, which an image needs; name a profile, as in \
             sim:toshiba-xg5"
        )));
    };
    let _directories = CreatedDirectories::create_parent(&arguments.image).map_err(|source| {
        let what = format!("{}: cannot create it there", arguments.image.display());
        Failure::system(Exit::Usage, what, source)
    })?;
    let image = Image::create(&arguments.image, &profile, arguments.force)?;
    let geometry = &image.configuration().geometry;
    let path = arguments.image.display();
    terminal.note(&format!(
        "{name}: {} for the host, on {} of flash. Made {path}, which grows as it is written;\n\
         ssdlab attach {path} makes it a block device",
        geometry.capacity(),
        geometry.physical_capacity(),
    ));
    Ok(())
}
